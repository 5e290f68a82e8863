"""Handlers that have a program in common cost one look at it, and each hears what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from config.load import onefile
from supervisor.dispatch import visible
from tests.config.conftest import Host

NAMES = [f"h{number}" for number in range(5)]


def test_a_program_of_many_handlers_is_looked_at_once(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = host.program("shared")
    for name in NAMES:
        host.manifest(name, command=f'["{program}", "{name}"]')
    looked: list[Path] = []
    real = onefile.chain_of

    def noted(command: Path, *more: Any) -> Any:
        looked.append(command)
        return real(command, *more)

    monkeypatch.setattr(onefile, "chain_of", noted)
    handlers = host.load_all()
    assert looked == [program]
    assert [handlers[name].touched for name in NAMES] == [handlers["h0"].touched] * 5
    assert program in handlers["h0"].touched
    # The next load looks anew.
    program.chmod(0o644)
    assert host.load_all().broken.keys() == {*NAMES}


@pytest.mark.parametrize("hidden", [False, True])
def test_each_handler_of_a_program_that_cannot_be_used_is_told(host: Host, hidden: bool) -> None:
    program = host.program("shared")
    if hidden:
        program = program.rename(host.root / "secrets" / "shared")
    else:
        program.chmod(0o644)
    host.manifest("good")
    for name in NAMES:
        host.manifest(name, command=f'["{program}"]')
    for handlers in (host.load_all(), visible.load(host.config)):
        assert [*handlers.good] == ["good"]
        texts = {str(error).partition(": ")[2] for error in handlers.broken.values()}
        assert (handlers.broken.keys(), len(texts)) == ({*NAMES}, 1)
