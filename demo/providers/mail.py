"""A mail server that delivers into its books. SMTP knows neither idempotency nor questions."""

from __future__ import annotations

import asyncio
import email
import functools
import threading
from concurrent.futures import Future
from typing import Any

from aiosmtpd.smtp import SMTP

from demo.providers.books import Books
from demo.providers.gate import Gate
from demo.providers.service import Answer, Ask, Respond, options, serve

MAILS = "mails (recipient TEXT, message_id TEXT)"


class Deliveries:
    """aiosmtpd's handler: a mail is in the books before the sender hears 250."""

    def __init__(self, books: Books, gate: Gate) -> None:
        self._books = books
        self._gate = gate

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
        message_id = email.message_from_bytes(envelope.content)["Message-ID"]
        for recipient in envelope.rcpt_tos:
            values = (recipient, message_id)
            self._books.write("INSERT INTO mails VALUES (?, ?)", values)
        await asyncio.to_thread(self._gate.walk_through, "mail")
        return "250 OK"


def mailbox(books: Books) -> Respond:
    """Routes: GET mails?to= or ?message_id=."""

    def respond(ask: Ask) -> Answer:
        if ask.what != "mails":
            return Answer(404, {"error": f"no such thing as {ask.what}"})
        if "message_id" in ask.query:
            wanted, column = ask.query["message_id"], "message_id"
        else:
            wanted, column = ask.query["to"], "recipient"
        return Answer(200, books.read(f"SELECT * FROM mails WHERE {column} = ?", (wanted,)))

    return respond


async def _deliver(deliveries: Deliveries, listening: Future[int]) -> None:
    loop = asyncio.get_running_loop()
    # aiosmtpd would look its own name up in the DNS, which can take seconds.
    smtp = functools.partial(SMTP, deliveries, hostname="mail.invalid", loop=loop)
    server = await loop.create_server(smtp, "127.0.0.1", 0)
    listening.set_result(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def main() -> None:
    given = options()
    books, gate = Books(given.books, MAILS), Gate()
    listening: Future[int] = Future()
    deliver = _deliver(Deliveries(books, gate), listening)
    threading.Thread(target=asyncio.run, args=(deliver,), daemon=True).start()
    serve(mailbox(books), gate, stay=given.stay, smtp=listening.result(timeout=10))


if __name__ == "__main__":
    main()
