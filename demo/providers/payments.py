"""A payment service. It remembers idempotency keys: the same key again is the same charge.

It also lends out its books: a report counts as read when it was asked for, because reading is
all that a handler without effects does, and the demo counts that too.
"""

from __future__ import annotations

from demo.providers.books import Books
from demo.providers.gate import Gate
from demo.providers.service import Answer, Ask, Respond, options, serve

CHARGES = "charges (key TEXT PRIMARY KEY, order_name TEXT, amount_cents INTEGER)"
READS = "reads (name TEXT, sent_ns INTEGER)"


def payments(books: Books) -> Respond:
    """Routes: POST charges, GET charges?order=, GET report?name=&sent_ns=, GET reads?name=."""

    def respond(ask: Ask) -> Answer:
        if (ask.method, ask.what) == ("POST", "charges"):
            return _charge(books, ask)
        if ask.what == "charges":
            return Answer(200, _of_order(books, ask.query["order"]))
        if ask.what == "report":
            values = ask.query["name"], int(ask.query["sent_ns"])
            books.write("INSERT INTO reads VALUES (?, ?)", values)
            total = books.read("SELECT COUNT(*) AS charges FROM charges", ())[0]
            return Answer(200, total, door="report")
        if ask.what == "reads":
            name = (ask.query["name"],)
            return Answer(200, books.read("SELECT sent_ns FROM reads WHERE name = ?", name))
        return Answer(404, {"error": f"no such thing as {ask.what}"})

    return respond


def _charge(books: Books, ask: Ask) -> Answer:
    key = ask.headers.get("Idempotency-Key")
    order, amount_cents = ask.body.get("order"), ask.body.get("amount_cents")
    if not key:
        return Answer(400, {"error": "a charge needs an Idempotency-Key header"})
    books.write("INSERT OR IGNORE INTO charges VALUES (?, ?, ?)", (key, order, amount_cents))
    charge = books.read("SELECT * FROM charges WHERE key = ?", (key,))[0]
    if (charge["order_name"], charge["amount_cents"]) != (order, amount_cents):
        return Answer(422, {"error": "this key belongs to another charge"})
    return Answer(200, {"charge": key, "amount_cents": amount_cents}, door="charge")


def _of_order(books: Books, order: str) -> list[dict[str, object]]:
    return books.read("SELECT * FROM charges WHERE order_name = ?", (order,))


def main() -> None:
    given = options()
    serve(payments(Books(given.books, CHARGES, READS)), Gate(), stay=given.stay)


if __name__ == "__main__":
    main()
