"""What a snapshot holds is read a piece at a time, wherever the pieces end."""

from __future__ import annotations

import pytest

from supervisor.core.whole import lines
from supervisor.journal import content
from supervisor.journal.content import state_in
from tests.core.made import NONE, Core, effect, terms
from tests.core.packed import packed


@pytest.mark.guarantee("J9")
@pytest.mark.parametrize("chunk", [1, 7, 64, 1_000, 1 << 20])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_pieces_of_any_size_are_the_same_state(chunk, end, monkeypatch):
    core = Core()
    for n in range(3):
        core.exit(core.begin(terms(effect(contract=NONE)), f"r{n}"))
    state = packed(core.state)
    monkeypatch.setattr(content, "_CHUNK", chunk)
    assert state_in(memoryview(b"\n".join(lines(state)) + end)) == core.state
