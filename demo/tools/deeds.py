"""The four deeds, as one function each. effectd's handlers and the plain worker's tool share them.

Where the providers are stands in the environment: DEMO_PAYMENTS, DEMO_TICKETS and DEMO_MAIL_SMTP
are ports on 127.0.0.1. Libraries are imported where they are used: what a tool does takes a
millisecond, and its imports many.
"""

import json
import os
import time

PATIENCE_S = 120


def ask(provider, method, path, body=None, headers=None):
    """One request to a provider; its answer's JSON."""
    import http.client

    port = int(os.environ[provider])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request(method, path, json.dumps(body) if body else None, headers or {})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text.decode()}")
        return json.loads(text)
    finally:
        connection.close()


def read_report(name):
    """Contract none: reading changes nothing. It says when it was sent, in ns since boot."""
    from urllib.parse import quote

    sent_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return ask("DEMO_PAYMENTS", "GET", f"/report?name={quote(name)}&sent_ns={sent_ns}")


def charge(order, amount_cents, key):
    """Contract idempotency_key: the service makes one charge for a key, and no second."""
    body = {"order": order, "amount_cents": amount_cents}
    return ask("DEMO_PAYMENTS", "POST", "/charges", body, {"Idempotency-Key": key})


def open_ticket(title, reference):
    """Contract reconciliation: the desk takes no key, but finds tickets by their reference."""
    return ask("DEMO_TICKETS", "POST", "/tickets", {"title": title, "reference": reference})


def find_tickets(reference):
    """What the desk opened for this reference."""
    from urllib.parse import quote

    return ask("DEMO_TICKETS", "GET", f"/tickets?reference={quote(reference)}")


def send_mail(to, subject, reference):
    """Contract no_safe_retry: nobody can take a mail back, or ask SMTP whether it went out."""
    import socket

    message_id = f"<{reference}@demo.invalid>"
    text = f"To: {to}\r\nSubject: {subject}\r\nMessage-ID: {message_id}\r\n\r\nThank you.\r\n."
    address = "127.0.0.1", int(os.environ["DEMO_MAIL_SMTP"])
    with socket.create_connection(address, PATIENCE_S) as line, line.makefile("rw") as smtp:
        said = ("HELO demo", "MAIL FROM:<robot@demo.invalid>", f"RCPT TO:<{to}>", "DATA", text)
        for word in (None, *said):
            if word is not None:
                smtp.write(f"{word}\r\n")
                smtp.flush()
            answer = smtp.readline()
            if answer[:1] not in ("2", "3"):
                raise RuntimeError(f"the mail server answered {answer!r}")
    return {"message_id": message_id}
