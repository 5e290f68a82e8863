"""What the clients do, without I/O: generators that yield requests and pauses.

A flow yields Send or Pause and is sent the Response (for a Pause: None); what the transport
raises is thrown into it. Client and AsyncClient only differ in how they run one, so they
cannot disagree about when a request may be sent again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Iterator, Mapping
from typing import Callable, NamedTuple, Optional, TypeVar, Union

from effectd._document import Document, as_object, objects
from effectd._transport import Send
from effectd._wire import MAX_EVENT_BYTES, Query, Response, decode_json, encode_request, path
from effectd.errors import AnswerLost, BadAnswer, EffectdError, Unreachable, from_document

ANSWER_SECONDS = 60.0
WAIT_MS = 30_000
# A daemon that was never reached is most likely not there: say so soon. Two seconds are
# enough for one that is just being restarted without systemd to hold its socket.
ARRIVE_MS = 2_000
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0


class Pause(NamedTuple):
    """Wait that many seconds."""

    seconds: float


T = TypeVar("T")
Flow = Generator[Union[Send, Pause], Optional[Response], T]


class Reached:
    """Whether a client has ever heard from its daemon."""

    ever = False


class Patience:
    """How long to go on while the daemon is away, from the first failure on.

    An answer ends the trouble, and the next failure starts anew. `clock` gives seconds.
    """

    def __init__(
        self, total_ms: int, reached: Reached, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._total = total_ms / 1000
        self._arrive = min(total_ms, ARRIVE_MS) / 1000
        self._reached = reached
        self._clock = clock
        self._since: Optional[float] = None
        self._next = _FIRST_PAUSE

    def answered(self) -> None:
        """The daemon has said something useful."""
        self._reached.ever = True
        self._since = None
        self._next = _FIRST_PAUSE

    def after(self, fault: EffectdError, *, at_least: float = 0.0) -> Optional[Pause]:
        """The pause before the next try, or None when patience is at its end."""
        now = self._clock()
        if isinstance(fault, AnswerLost) or not isinstance(fault, Unreachable):
            self._reached.ever = True
        self._since = now if self._since is None else self._since
        left = (self._total if self._reached.ever else self._arrive) - (now - self._since)
        if left <= 0:
            return None
        # Many clients lose one daemon at the same time; they need not come back together.
        chosen = max(at_least, self._next * random.uniform(0.5, 1.0))  # noqa: S311  # no secret
        self._next = min(self._next * 2, _LONGEST_PAUSE)
        return Pause(min(chosen, left))


def once(
    method: str,
    target: str,
    body: object = None,
    *,
    timeout: Optional[float] = None,
    repeatable: bool = False,
) -> Send:
    """One request. `timeout` (seconds) covers the whole exchange."""
    seconds = ANSWER_SECONDS if timeout is None else timeout
    return Send(encode_request(method, target, body), seconds, repeatable or method == "GET")


def ask(send: Send, patience: Patience) -> Flow[Document]:
    """One request until it is answered; the answer's document. Raises EffectdError for a no.

    Sent again while patience lasts: after a lost answer when it is `repeatable`, and after a
    503 or 429 that says `retryable` (AcceptanceUnknown only when `repeatable`).

    Once an answer was lost the request may have been carried out, and no later failure makes
    that untrue: then the loss is what is raised at the end, and not that nobody was there.
    """
    doubt: Optional[EffectdError] = None
    while True:
        at_least = 0.0
        fault: EffectdError
        try:
            answer = yield send
        except AnswerLost as lost:
            if not send.repeatable:
                raise AnswerLost(lost.detail, retryable=False) from lost
            fault = doubt = lost
        except Unreachable as away:
            fault = away
        else:
            assert answer is not None
            if answer.status < 300:
                patience.answered()
                return document_of(answer)
            fault = refusal_of(answer)
            if not _is_temporary(fault, answer.status, send.repeatable):
                patience.answered()
                raise fault
            at_least = _retry_after(answer.headers)
            doubt = fault if fault.code == "AcceptanceUnknown" else doubt
        pause = pause_after(fault, patience, at_least)
        if pause is not None:
            yield pause
        elif doubt is None or doubt is fault:
            raise fault
        else:
            raise doubt from fault


def pause_after(fault: EffectdError, patience: Patience, at_least: float = 0.0) -> Optional[Pause]:
    """The pause before the next try; None when no other try can help, or is waited for."""
    if isinstance(fault, Unreachable) and not fault.temporary:
        return None
    return patience.after(fault, at_least=at_least)


def document_of(answer: Response) -> Document:
    """The answer's object, or BadAnswer."""
    document = as_object(answer.document)
    if document is None:
        raise BadAnswer(f"the answer with status {answer.status} is not a JSON object")
    return document


def refusal_of(answer: Response) -> EffectdError:
    """The exception for an answer that is a no."""
    return from_document(as_object(answer.document) or {}, answer.status)


def _is_temporary(refusal: EffectdError, status: int, repeatable: bool) -> bool:
    if status not in {429, 503} or not refusal.retryable:
        return False
    return repeatable or refusal.code != "AcceptanceUnknown"


def _retry_after(headers: Mapping[str, str]) -> float:
    text = headers.get("retry-after", "")
    return min(float(text), 5.0) if text.isascii() and text.isdigit() else 0.0


def get(
    *segments: str, patience: Patience, query: Optional[Query] = None, wait_ms: Optional[int] = None
) -> Flow[Document]:
    """One document. With `wait_ms` the daemon answers when it is final, or after that time."""
    target = path(*segments, query={**(query or {}), "wait_ms": wait_ms})
    return (yield from ask(once("GET", target, timeout=answer_time(wait_ms)), patience))


def post(
    *segments: str,
    body: Mapping[str, object],
    patience: Patience,
    wait_ms: Optional[int] = None,
    repeatable: bool = False,
) -> Flow[Document]:
    """One POST; `repeatable` when sending it twice is the same as sending it once."""
    whole = dict(body) if wait_ms is None else {**body, "wait_ms": wait_ms}
    timeout = answer_time(wait_ms)
    send = once("POST", path(*segments), whole, timeout=timeout, repeatable=repeatable)
    return (yield from ask(send, patience))


def all_items(noun: str, patience: Patience) -> Flow[list[Document]]:
    """A list that has no pages."""
    return objects((yield from get(noun, patience=patience)), "items")


def answer_time(wait_ms: Optional[int]) -> float:
    """How long an answer may take, in seconds: what the daemon waits, and ample time beside it."""
    return ANSWER_SECONDS + (wait_ms or 0) / 1000


class Pages:
    """The items of a list, newest first, page by page; each page is a flow."""

    def __init__(self, noun: str, filters: Query, patience: Patience) -> None:
        self._noun = noun
        self._filters = filters
        self._patience = patience
        self._cursor: Optional[str] = None
        self._seen: set[str] = set()
        self.more = True

    def page(self) -> Flow[list[Document]]:
        """The next page. `more` tells whether there is another."""
        query: Query = {"limit": 200, **self._filters, "cursor": self._cursor}
        document = yield from get(self._noun, query=query, patience=self._patience)
        if not isinstance(document.get("items"), list):
            raise BadAnswer(f"the list of {self._noun} has no items")
        cursor = document.get("next_cursor")
        self._cursor = cursor if isinstance(cursor, str) and cursor else None
        self.more = self._cursor is not None
        if self._cursor is not None:
            if self._cursor in self._seen:
                raise BadAnswer(f"the list of {self._noun} comes back to its cursor {cursor!r}")
            self._seen.add(self._cursor)
        return objects(document, "items")


class Events:
    """Where a reader of the events stands: bytes in, each event once out.

    Several events can share a position (the facts of one frame), and a connection can end
    between them. So after a loss the frame of the last event is asked for again, and those
    of its events that were delivered before are skipped.
    """

    def __init__(self, after: int, follow: bool) -> None:
        self._after = after
        self._follow = follow
        self._position: Optional[int] = None
        self._delivered = 0
        self._skip = 0
        self._line = bytearray()

    def request(self) -> Send:
        """The request that goes on behind the last delivered event."""
        self._line.clear()
        self._skip = self._delivered
        after = self._after if self._position is None else self._position - 1
        query: Query = {"after": after, "follow": 1 if self._follow else None}
        # The daemon sends an empty line every 15 s: three missing ones are a lost connection.
        return once("GET", path("events", query=query), timeout=45.0)

    def feed(self, data: bytes) -> Iterator[Document]:
        """The new events that these bytes complete. Raises BadAnswer."""
        self._line += data
        while True:
            end = self._line.find(b"\n")
            if end < 0:
                break
            line = bytes(self._line[:end]).strip()
            del self._line[: end + 1]
            if line:
                event = as_object(decode_json(line, "an event"))
                if event is None:
                    raise BadAnswer(f"an event is not a JSON object: {line[:80]!r}")
                if self._is_new(event):
                    yield event
        if len(self._line) > MAX_EVENT_BYTES:
            raise BadAnswer(f"an event is longer than {MAX_EVENT_BYTES} bytes")

    def _is_new(self, event: Document) -> bool:
        position = event.get("position")
        if not isinstance(position, int):
            raise BadAnswer("an event has no position")
        if self._position is None or position > self._position:
            self._position, self._delivered, self._skip = position, 1, 0
            return True
        if position < self._position:
            raise BadAnswer(f"event {position} came after event {self._position}")
        if self._skip:
            self._skip -= 1
            return False
        self._delivered += 1
        return True
