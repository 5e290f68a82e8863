"""A ticket desk. It opens a ticket whenever it is asked to, and can be asked what it opened."""

from __future__ import annotations

from demo.providers.books import Books
from demo.providers.gate import Gate
from demo.providers.service import Answer, Ask, Respond, options, serve

TICKETS = "tickets (number INTEGER PRIMARY KEY, title TEXT, reference TEXT)"


def tickets(books: Books) -> Respond:
    """Routes: POST tickets, GET tickets?title= or ?reference=."""

    def respond(ask: Ask) -> Answer:
        if ask.what != "tickets":
            return Answer(404, {"error": f"no such thing as {ask.what}"})
        if ask.method == "POST":
            reference = ask.body["reference"]
            books.write(
                "INSERT INTO tickets (title, reference) VALUES (?, ?)",
                (ask.body["title"], reference),
            )
            return Answer(201, _by_reference(books, reference)[-1], door="ticket")
        if "reference" in ask.query:
            return Answer(200, _by_reference(books, ask.query["reference"]))
        title = (ask.query["title"],)
        return Answer(200, books.read("SELECT * FROM tickets WHERE title = ?", title))

    return respond


def _by_reference(books: Books, reference: str) -> list[dict[str, object]]:
    select = "SELECT * FROM tickets WHERE reference = ? ORDER BY number"
    return books.read(select, (reference,))


def main() -> None:
    given = options()
    serve(tickets(Books(given.books, TICKETS)), Gate(), stay=given.stay)


if __name__ == "__main__":
    main()
