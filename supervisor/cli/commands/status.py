"""`effectctl status`."""

from __future__ import annotations

import click

from supervisor.cli.exits import Exit
from supervisor.cli.look import escape
from supervisor.cli.output import Shared, shared
from supervisor.cli.render_status import (
    CHECK_EXITS,
    CHECK_UNREACHABLE,
    SHOWN,
    View,
    check_line,
    level,
    status_screen,
)
from supervisor.cli.talk import Daemon, Document, Problem


@click.command()
@click.option(
    "--check",
    is_flag=True,
    help="One line for monitoring; exits 0 OK, 1 warning, 2 critical, 3 unreachable.",
)
@shared
def status(given: Shared, /, *, check: bool) -> int:
    """What needs whom now, each with the command to type."""
    if not check:
        view = _view(given)
        given.emit(view.status, lambda look: status_screen(view, look), _ids(view))
        return Exit.DONE
    return _check(given)


def _check(given: Shared) -> int:
    from effectd.errors import Unreachable

    try:
        view = _view(given)
    except Unreachable as error:
        return _cannot_say(given, "unreachable", error.detail, CHECK_UNREACHABLE)
    except Problem as problem:
        return _cannot_say(given, "critical", str(problem), CHECK_EXITS["critical"])
    found = level(view)
    given.emit(
        {"level": found, "status": view.status},
        lambda look: check_line(view, look),
        _ids(view),
    )
    return CHECK_EXITS[found]


def _cannot_say(given: Shared, level: str, detail: str, code: int) -> int:
    given.emit(
        {"level": level, "detail": detail},
        lambda look: f"{look.mark('critical')} effectd {level.upper()}: {escape(detail)}",
    )
    return code


def _view(given: Shared) -> View:
    """The status, and the first few of what waits for whom; one more tells that there are more."""
    daemon, few = given.daemon, SHOWN + 1
    return View(
        status=daemon.get("status"),
        person=list(daemon.items("effects", limit=few, outcome="unknown", needs="person")),
        reconciler=list(daemon.items("effects", limit=few, outcome="unknown", needs="reconciler")),
        client=_waiting(daemon, few),
        approval=list(daemon.items("approvals", limit=few)),
    )


def _waiting(daemon: Daemon, few: int) -> list[Document]:
    """Operations that a resume would let go on: interrupted, or with a key that is still valid."""
    found: dict[str, Document] = {}
    for wanted in ({"needs": "client"}, {"state": "interrupted"}):
        for one in daemon.items("operations", limit=few, **wanted):
            found[str(one["operation_id"])] = one
    return list(found.values())[:few]


def _ids(view: View) -> list[str]:
    """The ids of what waits: effects, then operations."""
    return [str(one["effect_id"]) for one in (*view.person, *view.reconciler)] + [
        str(one["operation_id"]) for one in (*view.client, *view.approval)
    ]
