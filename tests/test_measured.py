"""The judge of branch coverage judges."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
import trio

from supervisor.core import ids
from tests import measured


def finished(first: measured.Measured, exitstatus: int = 0) -> int:
    option = SimpleNamespace(collectonly=False)
    session = SimpleNamespace(exitstatus=exitstatus, config=SimpleNamespace(option=option))
    first.pytest_sessionfinish(session)
    return session.exitstatus


def test_a_run_that_measured_nothing_fails():
    first = measured.Measured()
    assert finished(first) == pytest.ExitCode.TESTS_FAILED
    assert first.report == "nothing was measured\n"
    first.pytest_unconfigure()
    assert not first.place.exists()


def test_what_was_not_taken_fails_the_run_and_is_named():
    first = measured.Measured()
    seen = measured.measuring(first.place, ".1")
    with seen.collect():
        ids.default_session(1)
    seen.save()
    assert finished(first) == pytest.ExitCode.TESTS_FAILED
    assert "supervisor/journal/chain.py" in first.report
    first.pytest_unconfigure()


def test_what_no_test_can_take_is_not_missed(tmp_path):
    """A branch that the type checker proves impossible, and a module run as a program."""
    source = tmp_path / "one.py"
    text = (
        "import sys\nfrom typing import assert_never\nmatch 1:\n    case 1:\n        pass\n"
        "    case _:\n        assert_never(1)\nif __name__ == '__main__':\n    sys.exit(1)\n"
    )
    source.write_text(text)
    first = measured.measuring(tmp_path)
    first.set_option("run:source", None)
    first.set_option("run:include", [str(source)])
    with first.collect():
        exec(compile(text, str(source), "exec"), {"__name__": "one"})
    said = io.StringIO()
    assert first.report(file=said) == 100.0, said.getvalue()


async def test_a_thread_that_trio_kept_is_traced_as_a_new_one_is(tmp_path):
    seen = measured.Traced(tmp_path)
    seen.coverage.stop()
    for _ in range(2):
        with seen._tracing():
            await trio.to_thread.run_sync(ids.default_session, 1)
            found = seen.coverage.get_data().lines(ids.__file__)
        seen.coverage.erase()
        assert found


def test_a_red_run_is_not_judged_once_more():
    first = measured.Measured()
    assert finished(first, pytest.ExitCode.INTERRUPTED) == pytest.ExitCode.INTERRUPTED
    assert not first.report
    first.pytest_unconfigure()


def test_only_what_is_quick_is_traced():
    marked = SimpleNamespace(nodeid="tests/core/test_x.py::y", get_closest_marker=lambda _: 1)
    assert not measured._is_traced(marked)
    plain = SimpleNamespace(nodeid="tests/core/test_x.py::y", get_closest_marker=lambda _: None)
    assert measured._is_traced(plain)
    plain.nodeid = "tests/cli/test_x.py::y"
    assert not measured._is_traced(plain)


def test_a_whole_run_is_judged_and_one_of_chosen_tests_only_when_asked():
    def judged(measured_asked: bool = False, privileged: bool = False, chosen: str = "") -> bool:
        option = SimpleNamespace(keyword=chosen, markexpr="", deselect=None, privileged=privileged)
        config = SimpleNamespace(
            option=option,
            args_source=pytest.Config.ArgsSource.TESTPATHS,
            getoption={"--measured": measured_asked}.__getitem__,
        )
        return measured.is_judged(config)

    assert judged()
    assert not judged(privileged=True)
    assert not judged(chosen="budget")
    assert judged(measured_asked=True, chosen="budget")
