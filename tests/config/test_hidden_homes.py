"""A path in a home that the unit hides: the reason is said, and not one that leads astray."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from config.load import files

DENIED = OSError(errno.EACCES, "Permission denied")
MISSING = OSError(errno.ENOENT, "No such file or directory")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /home that something was mounted over."""
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setattr(files, "HOMES", (place,))
    monkeypatch.setattr(Path, "is_mount", lambda path: path == place)
    return place


@pytest.mark.parametrize("error", [DENIED, MISSING], ids=["closed", "empty"])
def test_a_hidden_home_is_named_with_both_ways_out(home: Path, error: OSError) -> None:
    home.chmod(0o000 if error is DENIED else 0o755)
    fault = files.explained(error, home / "ann" / "tool.sh")
    assert f"{home}/ann/tool.sh is hidden" in fault.message
    assert "ProtectHome=tmpfs" in fault.fix
    assert "BindReadOnlyPaths=" in fault.fix
    assert "chmod" not in fault.fix


@pytest.mark.parametrize("error", [DENIED, MISSING], ids=["denied", "missing"])
def test_a_home_that_is_there_is_explained_as_anything_else(home: Path, error: OSError) -> None:
    (home / "ann").mkdir()
    fault = files.explained(error, home / "ann" / "tool.sh")
    elsewhere = files.explained(error, Path("/srv/ann/tool.sh"))
    assert fault.fix == elsewhere.fix


def test_a_directory_of_mode_000_that_is_no_mount_is_not_the_units_work(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.chmod(0o000)
    monkeypatch.setattr(Path, "is_mount", lambda _: False)
    assert "hidden" not in files.explained(DENIED, home / "ann").message
