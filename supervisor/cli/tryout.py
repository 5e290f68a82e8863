"""The two ways of `handlers try`: a rehearsal that refuses every effect, or a scratch daemon."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from supervisor.cli.denials.watch import policy_of, traced_runs
from supervisor.cli.exits import Exit
from supervisor.cli.hints import hints
from supervisor.cli.look import Look
from supervisor.cli.output import Shared
from supervisor.cli.talk import WAIT_MS, CommandError, Document

if TYPE_CHECKING:
    from config.load import Handler
    from config.schema import Config
    from supervisor.cli.denials.amend import Amendment
    from supervisor.cli.offline import Source
    from supervisor.cli.rehearsal import Run


def rehearsed(given: Shared, config: Config, handler: Handler, value: Any, *, twice: bool) -> int:
    """Run it with every announcement refused. Exits 0 when it exited 0 or was refused an effect."""
    from supervisor.cli.difference import difference
    from supervisor.cli.render_rehearsal import compared, denied, rehearsal

    _refuse_whole_call(handler)
    _check_input(handler, value)
    runs, allowed = _runs(config, handler, value, 2 if twice else 1)
    pointer = difference(_asked(runs[0]), _asked(runs[1])) if twice else None

    def text(look: Look) -> str:
        shown = [rehearsal(run, _hints(config, handler, run), look) for run in runs]
        shown.append(denied(runs[0], allowed, str(handler.file), look))
        if twice:
            shown.append(compared(pointer, look))
        return "\n\n".join(one for one in shown if one)

    documents = {
        "runs": [run.document() for run in runs],
        "differs_at": pointer,
        "manifest_patch": allowed.text,
    }
    given.emit(documents, text, [handler.name])
    failed = pointer is not None or any(_went_wrong(run) for run in runs)
    return Exit.FAILED if failed else Exit.DONE


def _runs(config: Config, handler: Handler, value: Any, times: int) -> tuple[list[Run], Amendment]:
    from config.problems import ConfigError
    from sandbox.spec import SandboxFault, SandboxUnavailable
    from supervisor.cli.rehearsal import command_for
    from supervisor.dispatch.command import spec_of

    try:
        command = command_for(config, handler, value)
        return traced_runs(config, handler, spec_of(config, handler), command, times)
    except ConfigError as error:
        raise CommandError(str(error), exit_code=Exit.FAILED) from error
    except SandboxUnavailable as error:
        raise CommandError(f"{error.layer}: {error.cause}", error.remedy, Exit.FAILED) from error
    except SandboxFault as error:
        raise CommandError(str(error), exit_code=Exit.FAILED) from error


def _asked(run: Run) -> list[dict[str, Any]]:
    return [{"effect": name, "request": request} for name, request in run.requests]


def _went_wrong(run: Run) -> bool:
    """A handler that ends badly after a refusal did what it should."""
    return not run.requests and (run.ended, run.status) != ("exited", 0)


def _refuse_whole_call(handler: Handler) -> None:
    manifest = handler.manifest
    if manifest.whole_call and manifest.effects[0].contract != "none":
        raise CommandError(
            f"{handler.name} was not run: its one effect is the whole call, so running it is "
            "making the effect",
            "Declare its effects ([[effect]]), or read_only = true when it has none; "
            "--allow-effects runs it as it is.",
            Exit.REFUSED,
        )


def _check_input(handler: Handler, value: Any) -> None:
    """What the daemon would refuse is refused here, in the same words."""
    if handler.input_schema is None:
        return
    from config.schemas import input_fault

    fault = input_fault(handler.input_schema, value)
    if fault is not None:
        where = fault.pointer or "its top"
        raise CommandError(f"the input does not fit input_schema at {where}: {fault.message}")


def _hints(config: Config, handler: Handler, run: Run) -> list[str]:
    """What its stderr suggests, where its calls were not watched."""
    if run.denials or (run.ended, run.status) == ("exited", 0):
        return []
    return hints(run.stderr, policy_of(config, handler), signal=_signal(run))


def _signal(run: Run) -> int:
    return run.status or 0 if run.ended == "signaled" else 0


def with_effects(given: Shared, source: Source, handler: Handler, value: Any) -> int:
    """One dispatch on a scratch daemon: its effects are made, and its state is then removed."""
    from supervisor.cli.commands.dispatch import finish
    from supervisor.cli.follow import follow_operation
    from supervisor.cli.render_operations import operation as shown
    from supervisor.cli.scratch import scratch_daemon

    body = {"request_id": f"try-{uuid.uuid4().hex}", "handler": handler.name, "input": value}
    with scratch_daemon(source, handler.file.parent) as daemon:
        accepted = daemon.post("dispatch", body=body, wait_ms=WAIT_MS)
        operation = _over(follow_operation(daemon, accepted))
        calls = [_over(call) for call in daemon.newest_calls_of(operation)]
        if given.form == "text":
            given.note(shown(operation, calls, given.notes, onward=False))
        code = finish(given._replace(daemon=daemon), operation, calls, onward=False)
    if code in {Exit.OUTCOME_UNKNOWN, Exit.PARTLY_APPLIED} and given.form == "text":
        given.note("The scratch daemon is gone, and its record of this with it: check outside.")
    return code


def _over(document: Document) -> Document:
    """Without the fix of its error: there will be nobody left to ask for it."""
    error = document.get("error")
    return {**document, "error": {**error, "fix": ""}} if error else document
