"""Requests to commands: one table of routes, one strict reader a body.

A command is a value that says what is asked; who may ask and what comes of it is
decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from frozen import frozen
from supervisor.api import approvals, sessions
from supervisor.api import open as open_
from supervisor.api.command import Command, Page, Reader, page_of, query_wait, wait_of
from supervisor.api.fields import CLIENT_ID, Fields, Invalid, Query, parse_json
from supervisor.api.sessions import dispatch_digest
from supervisor.core.errors import Refusal
from supervisor.core.record import Result

RESUME_SCHEMA = "effectd-operation-resume-request-v1"
RECOVERY_SCHEMA = "effectd-operation-recovery-v1"


@frozen
class GetStatus(Command):
    pass


@frozen
class Reload(Command):
    pass


@frozen
class ListHandlers(Command):
    pass


@frozen
class GetHandler(Command):
    name: str


@frozen
class Dispatch(Command):
    request_id: str
    request_digest: str
    handler: str
    input: Any
    timeout_ms: int | None
    max_run_ms: int | None
    labels: Mapping[str, str]
    wait_ms: int
    dry_run: bool = False


@frozen
class ListOperations(Command):
    page: Page
    state: str | None
    handler: str | None
    session: str | None
    request_id: str | None
    needs: str | None
    since: str | None


@frozen
class GetOperation(Command):
    operation_id: str
    wait_ms: int


@frozen
class GetRecovery(Command):
    operation_id: str


@frozen
class GetCheckpoint(Command):
    operation_id: str


@frozen
class GetSchema(Command):
    name: str


@frozen
class Resume(Command):
    operation_id: str
    resume_request_id: str
    revision: int
    digest: str
    wait_ms: int


@frozen
class Cancel(Command):
    operation_id: str
    reason: str
    wait_ms: int


@frozen
class Extend(Command):
    operation_id: str
    max_run_ms: int
    reason: str


@frozen
class AcceptArtifacts(Command):
    operation_id: str
    reason: str


@frozen
class GetCall(Command):
    call_id: str
    wait_ms: int


@frozen
class GetResult(Command):
    call_id: str


@frozen
class GetOutput(Command):
    call_id: str
    attempt: int | None


@frozen
class AttestDead(Command):
    call_id: str
    reason: str


@frozen
class ListEffects(Command):
    page: Page
    outcome: str | None
    needs: str | None
    handler: str | None


@frozen
class GetEffect(Command):
    effect_id: str


@frozen
class Reconcile(Command):
    effect_id: str
    wait_ms: int


@frozen
class Resolve(Command):
    effect_id: str
    applied: bool
    result: Result | None
    evidence: str
    if_revision: int | None


@frozen
class GetEvents(Command):
    after: int
    follow: bool
    operation_id: str | None = None


# --- readers ------------------------------------------------------------------------------


def _dispatch(_: Sequence[str], __: Query, fields: Fields) -> Command:
    request_id = fields.client_id("request_id")
    handler = fields.text("handler", most=64)
    value = fields.any("input")
    timeout_ms = fields.integer("timeout_ms", None, least=1)
    max_run_ms = fields.integer("max_run_ms", None, least=1)
    labels = fields.labels("labels")
    digest = dispatch_digest(handler, value, timeout_ms, max_run_ms, labels)
    dry_run = fields.any("dry_run", False)
    if not isinstance(dry_run, bool):
        raise Invalid("'dry_run' must be true or false", "/dry_run")
    return Dispatch(
        request_id, digest, handler, value, timeout_ms, max_run_ms, labels, wait_of(fields), dry_run
    )


def _list_operations(_: Sequence[str], query: Query, __: Fields) -> Command:
    return ListOperations(
        page_of(query),
        *(query.text(k) for k in ("state", "handler", "session", "request_id", "needs", "since")),
    )


def _resume(path: Sequence[str], _: Query, fields: Fields) -> Command:
    fields.one_of("schema_version", RESUME_SCHEMA)
    operation_id = fields.text("operation_id", default=path[0], most=64)
    if operation_id != path[0]:
        raise Invalid("'operation_id' is not the one in the path", "/operation_id")
    return Resume(
        operation_id,
        fields.client_id("resume_request_id"),
        fields.integer("checkpoint_revision"),
        fields.text("checkpoint_digest", most=128),
        wait_of(fields),
    )


def _cancel(path: Sequence[str], _: Query, fields: Fields) -> Command:
    return Cancel(path[0], fields.text("reason", default="", most=1_000), wait_of(fields))


def _extend(path: Sequence[str], _: Query, fields: Fields) -> Command:
    return Extend(path[0], fields.integer("max_run_ms", least=1), fields.text("reason", most=1_000))


def _accept(path: Sequence[str], _: Query, fields: Fields) -> Command:
    return AcceptArtifacts(path[0], fields.text("reason", most=1_000))


def _output(path: Sequence[str], query: Query, __: Fields) -> Command:
    attempt = query.text("attempt")
    if attempt is not None and not attempt.isdigit():
        raise Invalid("query parameter 'attempt' must be a number")
    return GetOutput(path[0], int(attempt) if attempt is not None else None)


def _list_effects(_: Sequence[str], query: Query, __: Fields) -> Command:
    return ListEffects(page_of(query), *(query.text(k) for k in ("outcome", "needs", "handler")))


def _resolve(path: Sequence[str], _: Query, fields: Fields) -> Command:
    applied = fields.one_of("outcome", "applied", "not_applied") == "applied"
    result = Result(fields.any("result")) if fields.has("result") else None
    if result is not None and not applied:
        raise Invalid("a result belongs to an applied effect only", "/result")
    return Resolve(
        path[0],
        applied,
        result,
        fields.text("evidence", most=4_096),
        fields.integer("if_revision", None),
    )


def _reconcile(path: Sequence[str], _: Query, fields: Fields) -> Command:
    return Reconcile(path[0], wait_of(fields))


def _attest(path: Sequence[str], _: Query, fields: Fields) -> Command:
    return AttestDead(path[0], fields.text("reason", most=1_000))


def _events(_: Sequence[str], query: Query, __: Fields) -> Command:
    return GetEvents(query.integer("after", 0), query.flag("follow"), query.text("operation"))


def _bare(command: Callable[[], Command]) -> Reader:
    return lambda _path, _query, _fields: command()


def _of_one(command: Callable[[str], Command]) -> Reader:
    return lambda path, _query, _fields: command(path[0])


def _waiting(command: Callable[[str, int], Command]) -> Reader:
    return lambda path, query, _fields: command(path[0], query_wait(query))


ROUTES: tuple[tuple[str, str, Reader], ...] = (
    ("GET", "status", _bare(GetStatus)),
    ("POST", "reload", _bare(Reload)),
    ("GET", "handlers", _bare(ListHandlers)),
    ("GET", "handlers/*", _of_one(GetHandler)),
    ("POST", "dispatch", _dispatch),
    ("POST", "sessions", sessions.create),
    ("GET", "sessions", sessions.listed),
    ("GET", "sessions/*", sessions.one),
    ("POST", "sessions/*/messages", sessions.message),
    ("GET", "operations", _list_operations),
    ("GET", "operations/*", _waiting(GetOperation)),
    ("GET", "operations/*/recovery", _of_one(GetRecovery)),
    ("GET", "operations/*/checkpoint", _of_one(GetCheckpoint)),
    ("GET", "approvals", approvals.listed),
    ("POST", "operations/*/approvals/*", approvals.answer),
    ("GET", "schemas/*", _of_one(GetSchema)),
    ("POST", "operations/*/resume", _resume),
    ("POST", "operations/*/cancel", _cancel),
    ("POST", "operations/*/extend", _extend),
    ("POST", "operations/*/accept-artifacts", _accept),
    ("POST", "operations/*/calls", open_.call),
    ("GET", "operations/*/note", open_.note),
    ("POST", "operations/*/continuations", open_.go_on),
    ("POST", "operations/*/continuations/*/end", open_.end),
    ("GET", "calls/*", _waiting(GetCall)),
    ("GET", "calls/*/result", _of_one(GetResult)),
    ("GET", "calls/*/output", _output),
    ("POST", "calls/*/attest-dead", _attest),
    ("GET", "effects", _list_effects),
    ("GET", "effects/*", _of_one(GetEffect)),
    ("POST", "effects/*/resolve", _resolve),
    ("POST", "effects/*/reconcile", _reconcile),
    ("GET", "events", _events),
)


@frozen
class MethodNotAllowed:
    allow: tuple[str, ...]


def _match(pattern: str, path: Sequence[str]) -> list[str] | None:
    parts = pattern.split("/")
    if len(parts) != len(path):
        return None
    found: list[str] = []
    for part, segment in zip(parts, path, strict=True):
        if part == "*":
            found.append(segment)
        elif part != segment:
            return None
    return found


def route(
    method: str, path: Sequence[str], parameters: Mapping[str, Sequence[str]], body: bytes
) -> Command | Refusal | MethodNotAllowed:
    """`path` is decoded and split. HEAD is answered as GET by the transport."""
    if not path or path[0] != "v1":
        return Refusal("NotFound", "every path begins with /v1", fix="Try /v1/status.")
    matches = [
        (verb, reader, found)
        for verb, pattern, reader in ROUTES
        if (found := _match(pattern, path[1:])) is not None
    ]
    if not matches:
        return Refusal("NotFound", f"/{'/'.join(path)} is not a path of this API")
    for verb, reader, found in matches:
        if verb == method:
            try:
                return _read(reader, found, verb, parameters, body)
            except Invalid as invalid:
                return invalid.refusal
    return MethodNotAllowed(tuple(sorted({verb for verb, _, _ in matches})))


def _read(
    reader: Reader,
    found: Sequence[str],
    verb: str,
    parameters: Mapping[str, Sequence[str]],
    body: bytes,
) -> Command:
    for segment in found:
        if CLIENT_ID.fullmatch(segment) is None:
            raise Invalid(f"{segment[:64]!r} is not an id", code="NotFound")
    query = Query(parameters)
    fields = Fields(parse_json(body) if body and verb == "POST" else {})
    command = reader(found, query, fields)
    query.done()
    fields.done()
    return command
