"""Planted bugs in the core, and in the order of things around it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import attrs

from supervisor.core import contract, lineage, standing, whole
from supervisor.core.budget import Budget
from supervisor.core.decide import attempt as decide_attempt
from supervisor.core.decide import effect as decide_effect
from supervisor.core.decide import message as decide_message
from supervisor.core.decide import operation as decide_operation
from supervisor.core.decide import settle as decide_settle
from supervisor.core.evolve import attempt as evolve_attempt
from supervisor.core.evolve import effect as evolve_effect
from supervisor.core.evolve import epoch as evolve_epoch
from supervisor.core.evolve import fold
from supervisor.core.evolve import retention as evolve_retention
from supervisor.core.evolve import settle as evolve_settle
from supervisor.core.record import Record
from supervisor.journal.records import decode, encode
from tests.core.host import Host, Waiting
from tests.mutants.planting import Edit


@attrs.frozen
class Cell:
    """Another verdict in one cell of the policy."""

    cell: tuple[contract.Evidence, contract.Contract]
    verdict: contract.Verdict

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        original = contract.VERDICTS[self.cell]
        contract.VERDICTS[self.cell] = self.verdict
        try:
            yield
        finally:
            contract.VERDICTS[self.cell] = original


UNKNOWN, RETRY = contract.Evidence.UNKNOWN, contract.Verdict.RETRY

EDITS: dict[str, list[Edit | Cell]] = {
    "a no_safe_retry effect is retried": [Cell((UNKNOWN, contract.Contract.NO_SAFE_RETRY), RETRY)],
    "an effect that only its provider knows is retried": [
        Cell((UNKNOWN, contract.Contract.RECONCILIATION), RETRY)
    ],
    "the budget's last millisecond is spent": [Edit(Budget.admits, "< self", "<= self")],
    "an interrupted attempt is refunded": [
        Edit(
            evolve_attempt.interrupt,
            "changed(operation, interrupted=True)",
            "changed(operation, interrupted=True, "
            "budget=operation.budget.settle(live.reservation_ms, 0))",
        )
    ],
    "an answer about an older revision settles": [
        Edit(decide_settle._doubt, "running.revision != effect.revision", "False")
    ],
    "not applied is believed of a try that lives": [
        Edit(lineage.open_tries_dead, "all(", "bool(effect.tries) or all(")
    ],
    "a provider is believed before its requests have settled": [
        Edit(decide_settle._doubt, "< reconciler.settle_ms", "< 0 * reconciler.settle_ms")
    ],
    "correlation is by name only": [
        Edit(
            decide_effect._known_refusal, "    compared = known", "    compared = False and known"
        ),
    ],
    "a key is trusted for ever": [Edit(lineage.key_valid, "< effect", "< 10**9 * effect")],
    "an operator's word flips an outcome": [
        Edit(decide_settle._resolve_refusal, "effect.outcome not in UNSETTLED", "False"),
        Edit(decide_settle._finished, "or effect.result_lost", "or True"),
        Edit(
            evolve_settle._stated,
            "if effect.outcome not in UNSETTLED:",
            "if effect.outcome not in UNSETTLED and (effect.outcome is Said.APPLIED) is applied:",
            "lambda t: t.outcome in UNSETTLED",
            "lambda t: True",
        ),
    ],
    "leave without a word is taken for not applied": [
        Edit(evolve_attempt.ended, "Said.UNKNOWN", "Said.NOT_APPLIED")
    ],
    "a crash is taken for not applied": [
        Edit(evolve_attempt.interrupt, "else Said.UNKNOWN", "else Said.NOT_APPLIED")
    ],
    "a relaunch starts beside an old tree": [
        Edit(lineage.previous_alive, "not attempt.live and not attempt.dead", "False")
    ],
    "an answer for a key speaks of later tries too": [
        Edit(evolve_effect._settled, "t in before and t.outcome", "t.outcome")
    ],
    "the supervisor's word about one try speaks of all": [
        Edit(evolve_effect._settled, "record.settled_by is Settler.HANDLER and ", "")
    ],
    "what was let into the queue is not judged again": [
        Edit(
            decide_attempt.ready,
            "planned = plan(operation, call, event.now)",
            "planned = Plan(call, None, call.queued or Relaunch.FIRST, new_call=False)",
        )
    ],
    "an applied ordinal gets leave again": [
        Edit(decide_effect.announced, "known.outcome is Said.APPLIED and", "False and")
    ],
    "no handler is asked for the ordinals that it left out": [
        Edit(decide_attempt._missing, "attempt.announced >= known", "True")
    ],
    "a resume is not remembered": [
        Edit(decide_operation.resume_asked, "known == (event.revision, event.digest)", "False")
    ],
    "any checkpoint may be resumed": [
        Edit(decide_operation._checkpoint_conflict, "event.revision != operation.revision", "False")
    ],
    "a survivor is taken for dead": [
        Edit(evolve_attempt.interrupt, "if dead else {}", "if True else {}")
    ],
    "an unknown effect lets the operation be finished": [
        Edit(standing.operation_state, "tally.unresolved or", "False or")
    ],
    "a finished operation is finished once more, otherwise": [
        Edit(decide_settle._finished, "standing not in TERMINAL", "True")
    ],
    "leave is given after a cancel": [
        Edit(decide_effect._refusal, "operation.cancel_requested", "False")
    ],
    "an end is settled at its whole reservation": [
        Edit(Budget.settle, "min(active_ms, reservation_ms)", "reservation_ms")
    ],
    "the same message is accepted again": [
        Edit(decide_message.begin, "known is not None", "False")
    ],
    "a reconciler asks beside a live relaunch": [
        Edit(decide_settle._reconcile_refusal, "relaunched(operation, effect) or ", "")
    ],
    "a reconciler that outlives its daemon is forgotten": [
        Edit(evolve_epoch.daemon_started, "effect_id in record.asking", "False")
    ],
    "a late exit hides what was left out": [
        Edit(
            decide_attempt._would_have_succeeded,
            "exit_zero and attempt.code",
            "exit_zero or attempt.code",
        )
    ],
    "the time to settle is taken from the wall clock only": [
        Edit(decide_settle._waited_ns, "attempt.ended_boot == running.identity.boot_id", "False")
    ],
    "a key's age is the wall clock's": [
        Edit(lineage.age_ms, "effect.boot_id == now.boot_id", "False")
    ],
    "what is not proven dead may be evicted": [
        Edit(standing.waits_for, "if not tally.alive else None", "if True else None")
    ],
    "what was evicted is accepted again": [
        Edit(
            evolve_retention.evicted,
            "tombstones=state.tombstones.with_one(tombstone),",
            "tombstones=state.tombstones,",
        ),
    ],
    "the fold read back has forgotten what was evicted": [
        Edit(whole._indexed, "tombstones=tombstones,", "")
    ],
    "a request that a repair gave up is taken for a new one": [
        Edit(decide_message._lost, "if lost is None:", "if True:")
    ],
    "what a repair may have lost is still known as not applied": [
        Edit(evolve_epoch._doubted, "one.outcome is Said.NOT_APPLIED", "False")
    ],
    "a cancel from before a repair closes what the repair lost": [
        Edit(evolve_epoch._doubt, ', cancel_requested=False, cancel_reason=""', "")
    ],
    "what a repair lost is never closed": [
        Edit(standing.operation_state, " and not operation.cancel_requested", "")
    ],
    "words after the end are believed": [
        Edit(decide_effect.confirmed, "not call.attempts[event.attempt].dead", "True")
    ],
}


class EagerHost(Host):
    """Acts before the journal has it."""

    def _wait(self, waiting: Waiting) -> None:
        self.waiting.append(waiting)
        durable, self.durable = self.durable, len(self.payloads)
        try:
            self._act()
        finally:
            self.durable = durable


class LazyHost(Host):
    """Folds a decision when the disk has it, and not when it is queued."""

    def _queue(self, records: tuple[Record, ...]) -> None:
        self.payloads.append(encode(records))

    def sync(self, count: int) -> None:
        for payload in self.payloads[self.durable : self.durable + count]:
            self.state = fold(self.state, len(self.states), decode(payload))
            self.states.append(self.state)
        super().sync(count)


HOSTS = {
    "the shell acts before the journal": EagerHost,
    "state is folded after the sync": LazyHost,
}
