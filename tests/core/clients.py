"""What clients and admins ask for, well and badly timed."""

from __future__ import annotations

import random

import attrs

from supervisor.core.checkpoint import canonical_digest, checkpoint_digest
from supervisor.core.ids import CallId, OperationId, SessionId
from supervisor.core.record import (
    Terms,
)
from supervisor.core.state import Operation
from supervisor.core.step import (
    ArtifactsAsked,
    CancelAsked,
    Decision,
    ExtendAsked,
    ResumeAsked,
    SessionAsked,
    Submitted,
)
from tests.core.table import BY, Table

DEFAULT = SessionId("uid:1000")


class Clients(Table):
    def step_submit(self, rng: random.Random) -> None:
        made = len(self.state.operations)
        left = sum(self.state.unfinished.values())
        new = left < 2 or rng.random() < 0.1
        request_id = f"r{made if new else rng.randrange(made)}"
        max_run_ms = rng.choice([10_001, 20_001, 45_000, 200_000, 200_000])
        session_id = rng.choice([DEFAULT, *sorted(self.state.sessions)])
        self.submit(self.message(rng.choice(self.terms), request_id, max_run_ms, session_id))

    def step_create_session(self, rng: random.Random) -> None:
        name = f"s{rng.randrange(4)}"
        event = SessionAsked(
            self.now, SessionId(self.host.name("ses")), name, BY, {}, sessions_max=2
        )
        self.host.commit(event)

    def message(
        self, terms: Terms, request_id: str, max_run_ms: int, session_id: SessionId = DEFAULT
    ) -> Submitted:
        return Submitted(
            now=self.now,
            operation_id=OperationId(self.host.name("op")),
            call_id=CallId(self.host.name("call")),
            session_id=session_id,
            request_id=request_id,
            request_digest=canonical_digest([terms.handler]),
            by=BY,
            terms=terms,
            input=None,
            timeout_ms=terms.timeout_ms,
            max_run_ms=max_run_ms,
            operations_max=4,
            operations_kept=6,
        )

    def step_submit_again(self, rng: random.Random) -> None:
        if self.sent:
            event = rng.choice(self.sent)
            message = (event.session_id, event.request_id)
            known = message in self.state.messages or self.state.tombstones.of(message)
            if not known:  # forgotten since: this is another operation, and has its own names
                names = OperationId(self.host.name("op")), CallId(self.host.name("call"))
                event = attrs.evolve(event, operation_id=names[0], call_id=names[1])
            self.submit(event)

    def submit(self, event: Submitted) -> Decision:
        decision = self.host.commit(event)
        if decision.records:
            self.sent.append(event)
        return decision

    def step_cancel(self, rng: random.Random) -> None:
        operation = self.operation(rng)
        if operation is not None:
            self.host.commit(CancelAsked(self.now, operation.operation_id, BY, ""))

    def step_extend(self, rng: random.Random) -> None:
        operation = self.operation(rng)
        if operation is not None:
            limit = operation.budget.max_run_ms + rng.choice([-1, 0, 1, 20_000])
            event = ExtendAsked(self.now, operation.operation_id, BY, limit, "")
            self.host.commit(event)

    def step_resume(self, rng: random.Random) -> None:
        at_rest = [o for o in self.operations() if not o.finished and not self._runs(o)]
        operation = rng.choice(at_rest) if at_rest else self.operation(rng)
        if operation is not None:
            revision, digest = operation.revision, checkpoint_digest(operation)
            if rng.random() < 0.1:
                revision -= 1
            elif rng.random() < 0.1:
                digest = "0" * 64
            self._resume(operation.operation_id, self.host.name("rq"), revision, digest)

    def _runs(self, operation: Operation) -> bool:
        return any(call_id in self.state.moving for call_id in operation.call_order)

    def step_resume_again(self, rng: random.Random) -> None:
        """An old request again, as it was or with one thing changed."""
        if self.resumes:
            old = rng.choice(self.resumes)
            request_id = old.resume_request_id if rng.random() < 0.7 else self.host.name("rq")
            revision = old.revision + rng.choice([0, 0, 0, 1])
            if old.operation_id in self.state.operations:
                self._resume(old.operation_id, request_id, revision, old.digest)

    def _resume(self, operation_id: OperationId, name: str, revision: int, digest: str) -> None:
        event = ResumeAsked(
            self.now, operation_id, BY, name, revision, digest, CallId(self.host.name("call")), 0
        )
        decision = self.host.commit(event)
        if decision.refusal is None:
            self.resumes.append(event)

    def step_change_artifacts(self, rng: random.Random) -> None:
        self.digest = rng.choice(["d1", "d1", "d1", "d2"])

    def step_accept_artifacts(self, rng: random.Random) -> None:
        operation = self.operation(rng)
        if operation is not None:
            digests = {c.terms.handler: self.digest for c in operation.ordered_calls()}
            event = ArtifactsAsked(self.now, operation.operation_id, BY, digests, "")
            self.host.commit(event)
