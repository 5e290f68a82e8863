"""What a run needs is there, fits, and is taken away again; a failure says where to look."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.daemon import Daemon
from demo.failure import DemoFailed
from demo.interpreter import find_interpreter
from demo.processes import Processes
from demo.stage import CHECKOUT, SOCKET_PATH_MAX, new_root


@pytest.fixture
def processes() -> Iterator[Processes]:
    made = Processes(outlive=False)
    yield made
    made.end_all()


def test_a_directory_that_is_not_kept_is_gone() -> None:
    with new_root(keep=False) as root:
        assert root.stat().st_mode & 0o777 == 0o755
    assert not root.exists()


def test_an_interrupted_run_keeps_nothing() -> None:
    with pytest.raises(KeyboardInterrupt), new_root(keep=True) as root:
        raise KeyboardInterrupt
    assert not root.exists()


def test_a_fault_keeps_its_traceback_in_a_file_and_says_which() -> None:
    with pytest.raises(DemoFailed, match="ValueError: odd") as caught, new_root(keep=False) as root:
        raise ValueError("odd")
    try:
        assert caught.value.look_at == (root / "effectd.log", root / "demo.log")
        assert "Traceback" in (root / "demo.log").read_text()
    finally:
        (root / "demo.log").unlink()
        root.rmdir()


def test_a_failure_without_a_file_of_its_own_names_the_daemons_log() -> None:
    with pytest.raises(DemoFailed) as caught, new_root(keep=False) as root:
        (root / "effectd.log").touch()
        raise DemoFailed("nothing happens")
    assert caught.value.look_at == (root / "effectd.log",)
    (root / "effectd.log").unlink()
    root.rmdir()


def test_a_deep_temporary_directory_is_not_used_for_a_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory(prefix="effectd-demo-test-") as deep:
        deeper = Path(deep) / ("x" * 100)
        deeper.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(deeper))
        with new_root(keep=False) as root:
            assert len(str(root / "run" / "effectd.sock")) <= SOCKET_PATH_MAX
        assert not [*deeper.iterdir()]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs handlers as another user")
def test_a_directory_that_handlers_cannot_enter_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory(prefix="effectd-demo-test-") as closed:
        monkeypatch.setattr(tempfile, "tempdir", closed)
        with new_root(keep=False) as root:
            assert not root.is_relative_to(closed)


def test_no_interpreter_that_can_import_the_tools_is_said_with_each_ones_reason() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="effectd-demo-test-") as empty,
        pytest.raises(DemoFailed, match="No module named 'deeds'"),
    ):
        find_interpreter(Path(empty))


def test_a_daemon_that_cannot_start_is_said_with_its_log(processes: Processes) -> None:
    with tempfile.TemporaryDirectory(prefix="effectd-demo-test-") as name:
        root = Path(name).resolve()
        (root / "state").write_text("a file where a directory should be")
        daemon = Daemon(processes, root, CHECKOUT, dict(os.environ))
        daemon.begin()
        with pytest.raises(DemoFailed, match="ended instead of becoming ready") as caught:
            daemon.wait_until_ready()
        assert caught.value.look_at == (root / "effectd.log",)
        assert (root / "effectd.log").read_text()
