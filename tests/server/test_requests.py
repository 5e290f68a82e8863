"""What clients send, good and bad, one row each; and that the others do not notice."""

from __future__ import annotations

import sys
import time
from email.utils import formatdate, parsedate_to_datetime

import pytest
import trio

from supervisor.server import Request, Response
from supervisor.server.sending import response_head

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"

GARBAGE = {
    "text": b"hello\r\n\r\n",
    "json without HTTP": b'{"jsonrpc": "2.0"}\r\n\r\n',
    "null bytes": b"\0" * 64,
    "high bytes": bytes(range(128, 256)) + b"\r\n\r\n",
    "TLS client hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "SSH banner": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
    "HTTP/2.0 in words": b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
    "HTTP/3.0": b"GET / HTTP/3.0\r\nHost: x\r\n\r\n",
    "empty line first": b"\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "NUL in the path": b"GET /a\0b HTTP/1.1\r\nHost: x\r\n\r\n",
    "escaped NUL in the path": b"GET /a%00b HTTP/1.1\r\nHost: x\r\n\r\n",
    "bad escape": b"GET /a%4 HTTP/1.1\r\nHost: x\r\n\r\n",
    "authority form": b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    "asterisk form": b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    "blank in the target": b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
    "method with a brace": b"G{T / HTTP/1.1\r\nHost: x\r\n\r\n",
    "header without colon": b"GET / HTTP/1.1\r\nHost: x\r\nwhat\r\n\r\n",
    "blank before colon": b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    "NUL in a header": b"GET / HTTP/1.1\r\nHost: x\r\na: \0\r\n\r\n",
    "negative length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "length of 5000 digits": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: "
    + b"9" * 5000
    + b"\r\n\r\n",
    "unknown transfer coding": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
    "bad chunk size": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "bad chunk end": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
    "endless chunk size": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"0" * 64
    + b"1\r\na\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("sent", GARBAGE.values(), ids=GARBAGE.keys())
async def test_garbage_gets_a_problem_and_disturbs_nobody(served, capsys, sent: bytes) -> None:
    async with served() as server, server.client() as other:
        assert (await other.get()).status == 200
        async with server.client() as client:
            await client.send(sent)
            answer = await client.answer()
            assert (answer.status, answer.code) == (400, "InvalidInput")
            assert answer.headers["connection"] == "close"
            assert answer.document["retryable"] is False
            assert await client.ended() == b""
        assert (await other.get()).status == 200
    assert capsys.readouterr().err == ""


HALVES = {
    "nothing": (b"", b""),
    "half a request line": (b"GET / HT", b"400"),
    "half the headers": (b"GET / HTTP/1.1\r\nHost: x\r\n", b"400"),
    "half a body": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc", b"400"),
    "half a chunk": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nab",
        b"400",
    ),
}


@pytest.mark.parametrize(("sent", "status"), HALVES.values(), ids=HALVES.keys())
async def test_half_a_request_never_reaches_the_application(served, sent, status) -> None:
    calls: list[Request] = []

    async def app(request: Request) -> Response:
        calls.append(request)
        return Response(200)

    async with served(app) as server:
        async with server.client() as client:  # it stops in the middle, and reads on
            if sent:
                await client.send(sent)
            await client.stream.send_eof()
            ended = await client.ended()
            assert ended.split(b" ")[1:2] == ([status] if status else [])
        async with server.client() as client:  # it goes in the middle
            if sent:
                await client.send(sent)
        assert (await server.get()).status == 200
    assert len(calls) == 1


async def test_a_whole_request_arrives_decoded(served) -> None:
    async with served() as server, server.client() as client:
        await client.send(
            b"POST /v1/a%2Fb?limit=5&state=x&state=y HTTP/1.1\r\nHOST: h\r\nX-A: 1\r\nx-a: 2\r\n"
            b"Content-Length: 4\r\n\r\nbody"
        )
        assert (await client.answer()).document == {
            "method": "POST",
            "path": ["v1", "a/b"],
            "query": {"limit": ["5"], "state": ["x", "y"]},
            "headers": {"host": "h", "x-a": "1, 2", "content-length": "4"},
            "body": "body",
        }


async def test_a_body_may_come_in_chunks_and_bytes(served) -> None:
    async with served() as server, server.client() as client:
        request = (
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: t\r\n\r\n"
        )
        for byte in request:
            await client.send(bytes([byte]))
        assert (await client.answer()).document["body"] == "abcde"


async def test_a_connection_is_kept_and_pipelined_requests_are_answered_in_order(served) -> None:
    async with served() as server, server.client() as client:
        await client.get()
        await client.send(b"".join(GET.replace(b"/ ", b"/%d " % i) for i in range(50)))
        for i in range(50):
            assert (await client.answer()).document["path"] == [str(i)]


async def test_a_broken_request_behind_a_good_one_spoils_only_itself(served) -> None:
    async with served() as server, server.client() as client:
        await client.send(GET + b"\0garbage")
        assert (await client.answer()).status == 200
        assert (await client.answer()).status == 400
        assert await client.ended() == b""


@pytest.mark.parametrize(
    "request_text",
    [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"],
)
async def test_a_client_that_wants_an_end_gets_it(served, request_text: bytes) -> None:
    async with served() as server, server.client() as client:
        await client.send(request_text)
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"].lower()) == (200, "close")
        assert await client.ended() == b""


async def test_half_closing_after_a_request_does_not_cancel_it(served) -> None:
    async def app(_request: Request) -> Response:
        await trio.testing.wait_all_tasks_blocked()
        return Response(200, {}, b"still here")

    async with served(app) as server, server.client() as client:
        await client.send(GET)
        await client.stream.send_eof()
        assert (await client.answer()).body == b"still here"
        assert await client.ended() == b""


async def test_head_answers_the_length_and_no_body(served) -> None:
    async with served() as server, server.client() as client:
        await client.send(GET.replace(b"GET", b"HEAD") + GET)
        head = await client.answer(head=True)
        body = await client.answer()
        assert int(head.headers["content-length"]) == len(body.body) + len("HEAD") - len("GET")
        assert body.document["method"] == "GET"


async def test_a_fault_of_a_head_request_has_no_body(served) -> None:
    async with served() as server, server.client() as client:
        await client.send(b"HEAD /%00 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.answer(head=True)).status == 400
        assert await client.ended() == b""


async def test_a_fault_after_a_head_request_has_its_body(served, capsys) -> None:
    async with served() as server, server.client() as client:
        await client.send(GET.replace(b"GET", b"HEAD") + b"\0garbage")
        assert (await client.answer(head=True)).status == 200
        answer = await client.answer()
        assert (answer.status, answer.code) == (400, "InvalidInput")
    assert capsys.readouterr().err == ""


async def test_expect_100_is_answered_before_the_body(served) -> None:
    start = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    async with served(body_bytes=4) as server:
        async with server.client() as client:
            await client.send(start % 4)
            assert (await client.answer()).status == 100
            await client.send(b"body")
            assert (await client.answer()).document["body"] == "body"
        async with server.client() as client:  # a body too large is not asked for
            await client.send(start % 5)
            assert (await client.answer()).status == 413


async def test_an_upgrade_is_not_taken(served) -> None:
    async with served() as server, server.client() as client:
        await client.send(
            b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"
            b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
        )
        assert (await client.answer()).document["path"] == ["a"]
        assert (await client.get("/b")).document["path"] == ["b"]


async def test_every_method_reaches_the_application_with_its_body(served) -> None:
    async def app(request: Request) -> Response:
        return Response(405, {"allow": "GET"}, str(len(request.body)).encode())

    async with served(app) as server, server.client() as client:
        for method in (b"DELETE", b"GET", b"BREW", b"PUT"):
            await client.send(method + b" / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
            await client.send(bytes(1_000_000))
            answer = await client.answer()
            assert (answer.status, answer.body) == (405, b"1000000")


@pytest.mark.parametrize(
    ("method", "code", "retryable"),
    [("GET", "InternalError", False), ("POST", "AcceptanceUnknown", True)],
)
async def test_a_crash_of_the_application_is_a_500_and_one_traceback(
    served, capsys, method: str, code: str, retryable: bool
) -> None:
    async def app(request: Request) -> Response:
        if request.path == ("bad",):
            raise RuntimeError("the disk is gone")
        return Response(200)

    async with served(app) as server, server.client() as client:
        await client.send(f"{method} /bad HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = await client.answer()
        assert (answer.status, answer.code, answer.document["retryable"]) == (500, code, retryable)
        assert "the disk is gone" not in answer.body.decode()
        assert (await client.get()).status == 200
    err = capsys.readouterr().err
    assert err.count("Traceback") == err.count("RuntimeError: the disk is gone") == 1
    assert f"{method} /bad" in err


@pytest.mark.parametrize(
    "answer",
    [
        Response(200, {"a": "b\r\nc: d"}),
        Response(200, {"a b": "c"}),
        Response(20, {}),
        Response(100, {}),
        None,
    ],
    ids=["line break in a header", "bad header name", "bad status", "status 100", "no response"],
)
async def test_an_answer_that_is_not_http_is_a_500(served, capsys, answer) -> None:
    async def app(_request: Request) -> Response:
        return answer

    async with served(app) as server:
        assert (await server.get()).status == 500
    assert capsys.readouterr().err.count("Traceback") == 1


async def test_an_answer_without_content_has_no_framing(served) -> None:
    async def app(_request: Request) -> Response:
        return Response(204)

    async with served(app) as server, server.client() as client:
        answer = await client.get()
        assert answer.status == 204
        assert "content-length" not in answer.headers
        assert "transfer-encoding" not in answer.headers
        assert (await client.get()).status == 204


HTTP_CLIENT = """
import http.client, socket, sys
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])
connection = Connection("x")
connection.request("POST", "/", body=b"x" * 1_000_000)
first = connection.getresponse()
first.read()
connection.request("POST", "/", body=b"x" * 2_000_000)
second = connection.getresponse()
second.read()
print(first.status, second.status)
"""


async def test_an_ordinary_client_reads_why_its_body_was_refused(served) -> None:
    async with served() as server:
        done = await trio.run_process(
            [sys.executable, "-I", "-c", HTTP_CLIENT, str(server.path)], capture_stdout=True
        )
    assert done.stdout == b"200 413\n"


def test_the_date_is_written_as_http_has_it() -> None:
    before = int(time.time())
    (date,) = [value for name, value in response_head(Response(200)).headers if name == b"date"]
    at = parsedate_to_datetime(date.decode())
    assert formatdate(at.timestamp(), usegmt=True) == date.decode()
    assert before <= at.timestamp() <= time.time()
