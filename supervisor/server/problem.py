"""The transport's own problem documents (RFC 9457): faults that no application sees."""

from __future__ import annotations

import json
from collections.abc import Mapping

from supervisor.server.messages import Response


class Fault(Exception):  # noqa: N818 -- the client's fault or the host's, always answered
    """Ends a request before or instead of the application's answer; `answer` says why."""

    def __init__(self, answer: Response) -> None:
        super().__init__(answer.status)
        self.answer = answer


def problem(
    status: int,
    code: str,
    title: str,
    *,
    detail: str,
    fix: str,
    retryable: bool = False,
    headers: Mapping[str, str] | None = None,
) -> Response:
    document = {
        "type": f"urn:effectd:{code}",
        "code": code,
        "title": title,
        "detail": detail,
        "fix": fix,
        "retryable": retryable,
    }
    body = json.dumps(document, ensure_ascii=False).encode() + b"\n"
    return Response(status, {"content-type": "application/problem+json", **(headers or {})}, body)


def bad_request(detail: str, fix: str = "Send one well-formed HTTP/1.1 request.") -> Response:
    return problem(400, "InvalidInput", "The request cannot be read", detail=detail, fix=fix)


def too_slow(what: str, timeout_ms: int) -> Response:
    return problem(
        408,
        "InvalidInput",
        "The request did not arrive in time",
        detail=f"{what} took longer than {timeout_ms} ms; nothing of the request was done.",
        fix="Send a request whole, without pauses.",
    )


def body_too_large(body_bytes: int) -> Response:
    return problem(
        413,
        "LimitExceeded",
        "The request is too large",
        detail=f"A request's body may have {body_bytes} bytes; nothing of it was done.",
        fix="Send less, for example the name of a file instead of its content; "
        "an administrator can raise [limits] request_bytes.",
    )


def header_too_large(detail: str) -> Response:
    return problem(
        431,
        "LimitExceeded",
        "The request's headers are too large",
        detail=detail,
        fix="Send fewer and shorter headers.",
    )


def too_many_connections(whose: str, limit: int) -> Response:
    return problem(
        503,
        "LimitExceeded",
        "Too many connections",
        detail=f"{whose} {limit} connections open already; the request was not read.",
        fix="Close connections that are not needed and send the request again.",
        retryable=True,
        headers={"retry-after": "1"},
    )


def out_of_files() -> Response:
    return problem(
        503,
        "LimitExceeded",
        "The daemon has no file descriptor left",
        detail="The connecting process could not be identified; the request was not read.",
        fix="Send the request again later; raise LimitNOFILE= of effectd.service if this persists.",
        retryable=True,
        headers={"retry-after": "1"},
    )


def denied(detail: str, fix: str) -> Response:
    return problem(403, "AccessDenied", "This process may not connect", detail=detail, fix=fix)


def peer_ended(pid: int) -> Response:
    return denied(
        f"Process {pid}, which connected, has ended.",
        "Let the process that sends requests open its own connection and live until its answer.",
    )


def internal_error(method: str) -> Response:
    """The application failed. Whether it had accepted anything is not known for a POST."""
    detail = "The daemon failed inside while it answered; its log on stderr has the traceback."
    if method in {"GET", "HEAD"}:
        return problem(
            500,
            "InternalError",
            "The daemon failed to answer",
            detail=detail,
            fix="Report the traceback in the daemon's log. Nothing was changed by this request.",
        )
    return problem(
        500,
        "AcceptanceUnknown",
        "The daemon failed while it handled the request",
        detail=f"{detail} Whether the request was accepted is not known.",
        fix="Send the same request with the same id again: an accepted one is not run twice.",
        retryable=True,
    )
