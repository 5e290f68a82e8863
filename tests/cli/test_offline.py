"""Commands that need no daemon: handlers check and try, journal, config, doctor."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.cli.exits import Exit
from tests.cli.conftest import Ctl, Daemon, Said

DAMAGED = 2
NOT_ANCHORED = 3


@pytest.fixture
def local(ctl: Ctl, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Ctl:
    """effectctl with no daemon to reach, and the handlers of the real one."""
    monkeypatch.setenv("EFFECTD_SOCKET", "/nowhere/effectd.sock")

    def call(*arguments: str) -> Said:
        where = ["--dev", "--state-dir", str(daemon.base / "other")]
        return ctl(*arguments, *where, "--handlers-dir", str(daemon.handlers))

    return call


@pytest.fixture
def manifest(daemon: Daemon) -> Iterator[Path]:
    """A manifest that a test may write, and that is gone afterwards."""
    file = daemon.handlers / "written.toml"
    yield file
    file.unlink(missing_ok=True)


# --- handlers check ---------------------------------------------------------------------------


def test_a_good_handler_checks_one_line_each(local: Ctl, daemon: Daemon) -> None:
    said = local("handlers", "check", "charge")
    assert said.code == Exit.DONE, said.out
    assert re.search(r"sandbox: .*pid_namespace", said.out)
    assert f"run {daemon.base}/bin/charge: the command" in said.out
    assert "all good" in said.out


def test_the_reconciler_is_checked_too(local: Ctl, daemon: Daemon) -> None:
    assert (
        f"run {daemon.base}/bin/find: the reconciler of charge"
        in local("handlers", "check", "asked").out
    )


def test_a_broken_manifest_names_file_key_and_remedy(local: Ctl, manifest: Path) -> None:
    manifest.write_text('manifest = 1\ncomand = ["/bin/true"]\ntimeout_ms = 1\n')
    said = local("handlers", "check", "written")
    assert said.code == Exit.FAILED
    assert f"{manifest}: comand" in said.out
    assert "fix:" in said.out


def test_paths_that_cannot_be_used_inside_are_named_with_the_remedy(
    local: Ctl, manifest: Path, daemon: Daemon
) -> None:
    closed = daemon.base / "closed"
    closed.mkdir(exist_ok=True)
    closed.chmod(0o755 if os.geteuid() == 0 else 0o555)  # the handler's user cannot write to it
    manifest.write_text(
        f'manifest = 1\ncommand = ["{daemon.base}/bin/echo"]\ntimeout_ms = 1\n'
        f'read_only = true\n[sandbox]\nwrite = ["{closed}"]\n'
    )
    said = local("handlers", "check", "written", "-o", "json")
    assert said.code == Exit.FAILED
    [wrong] = [one for one in said.document["items"] if one["state"] == "wrong"]
    assert wrong["what"] == f"write {closed}"
    assert f"{closed}" in wrong["remedy"]
    assert "chown" in wrong["remedy"]
    assert list(closed.iterdir()) == []


def test_a_path_that_is_not_there_is_told_before_anything_runs(
    local: Ctl, manifest: Path, daemon: Daemon
) -> None:
    manifest.write_text(
        f'manifest = 1\ncommand = ["{daemon.base}/bin/echo"]\ntimeout_ms = 1\n'
        f'read_only = true\n[sandbox]\nread = ["{daemon.base}/none"]\n'
    )
    said = local("handlers", "check", "written")
    assert said.code == Exit.FAILED
    assert f"{daemon.base}/none" in said.out


def test_a_handler_by_path_is_checked(local: Ctl, daemon: Daemon) -> None:
    assert local("handlers", "check", str(daemon.handlers / "echo.toml")).code == Exit.DONE


def test_a_check_judges_as_the_daemon_would(local: Ctl, manifest: Path, daemon: Daemon) -> None:
    command = f'manifest = 1\ncommand = ["{daemon.base}/bin/echo"]\ntimeout_ms = 1\n'
    manifest.write_text(f'{command}[sandbox]\nwrite = ["{daemon.base}/bin"]\n')
    said = local("handlers", "check", "written")
    assert said.code == Exit.FAILED
    assert "runs from" in said.out
    manifest.write_text(f'{command}[sandbox]\naccept_missing = ["memory", "nothing"]\n')
    said = local("handlers", "check", "written").out
    assert "no layer is called 'nothing'" in " ".join(said.split())
    manifest.write_text(f'{command}[sandbox]\naccept_missing = ["memory"]\n')
    assert "memory need not be accepted" in local("handlers", "check", "written").out
    assert "judged as uid" in local("handlers", "check", "written").out


def test_a_check_shows_what_the_closure_warns_of(
    local: Ctl, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A program right below a directory that holds other people's things: shown alone.
    program = Path("/tmp", f"effectd-alone-{os.getpid()}")
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    try:
        manifest.write_text(f'manifest = 1\ncommand = ["{program}"]\ntimeout_ms = 1\n')
        said = local("handlers", "check", "written", "-o", "json")
        warned = [one for one in said.document["items"] if one["state"] == "warning"]
        assert any(str(program) in one["detail"] for one in warned), warned
    finally:
        program.unlink()


def test_a_daemon_that_runs_is_asked(ctl: Ctl, daemon: Daemon, manifest: Path) -> None:
    where = ["--dev", "--state-dir", str(daemon.state), "--handlers-dir", str(daemon.handlers)]
    command = f'manifest = 1\ncommand = ["{daemon.base}/bin/echo"]\ntimeout_ms = 1\n'
    manifest.write_text(command)
    assert "it has loaded this very manifest" in ctl("handlers", "check", "written", *where).out
    elsewhere = daemon.base / "elsewhere.toml"
    elsewhere.write_text(command)
    assert "it has not loaded this file" in ctl("handlers", "check", str(elsewhere), *where).out


# --- handlers try -----------------------------------------------------------------------------


def test_a_rehearsal_runs_the_handler_and_shows_its_output(local: Ctl) -> None:
    said = local("handlers", "try", "echo", "--input", '{"x": 1}')
    assert said.code == Exit.DONE, said.err
    assert '{"x":1}' in said.out
    assert "exit 0" in said.out


def test_a_rehearsal_refuses_the_announcement_and_says_what_was_asked(local: Ctl) -> None:
    said = local("handlers", "try", "stamp", "-o", "json")
    assert said.code == Exit.DONE
    [run] = said.document["runs"]
    assert run["conversation"][0]["said"] == "announces"
    assert "of" in run["conversation"][0]["request"]["n"]
    assert (run["ended"], run["status"]) == ("exited", 9)
    assert "refused: this is a rehearsal" in local("handlers", "try", "stamp").out


def test_twice_names_the_pointer_that_differs(local: Ctl) -> None:
    said = local("handlers", "try", "stamp", "--twice")
    assert said.code == Exit.FAILED
    assert "differ at /0/request/n/of" in said.out
    same = local("handlers", "try", "doubt", "--twice")
    assert "both runs announced the same" in same.out
    assert same.code == Exit.DONE


def test_a_whole_call_effect_is_not_run_by_a_rehearsal(local: Ctl) -> None:
    said = local("handlers", "try", "whole")
    assert said.code == Exit.REFUSED
    assert "was not run" in said.err
    assert "--allow-effects" in said.err


def test_a_failed_rehearsal_explains_the_denial(
    local: Ctl, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without strace, of which the tests of denials are.
    monkeypatch.setattr("shutil.which", lambda _: None)
    said = local("handlers", "try", "hidden")
    assert said.code == Exit.FAILED
    words = re.sub(r"\s+", " ", said.out)
    assert f"hint: {daemon.base}/hidden.txt exists but is hidden from this handler" in words
    assert "apt install strace" in words


def test_a_rehearsal_ends_at_the_timeout(local: Ctl) -> None:
    said = local("handlers", "try", "slow")
    assert said.code == Exit.FAILED
    assert "did not end in its timeout_ms" in said.out


def test_with_effects_a_scratch_daemon_makes_them_and_leaves_nothing(
    local: Ctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not pytest's tmp_path: a socket's path has room for 107 bytes.
    with tempfile.TemporaryDirectory(prefix="efd-") as folder:
        monkeypatch.setattr("tempfile.tempdir", folder)
        said = local("handlers", "try", "charge", "--allow-effects")
        assert said.code == Exit.DONE, said.err
        assert said.document == {"receipt": 7}
        assert "effect charge announced" in said.err
        assert os.listdir(folder) == []


def test_an_unknown_outcome_on_a_scratch_daemon_sends_nobody_to_it(local: Ctl) -> None:
    said = local("handlers", "try", "doubt", "--allow-effects")
    assert said.code == Exit.OUTCOME_UNKNOWN
    assert "Do not retry" in said.err
    assert "effectctl" not in said.err
    assert "check outside" in said.err


def test_input_that_the_schema_refuses_is_a_usage_error(local: Ctl, manifest: Path) -> None:
    (manifest.parent / "n.schema.json").write_text(
        json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}})
    )
    manifest.write_text(
        'manifest = 1\ncommand = ["/bin/true"]\ntimeout_ms = 1000\nread_only = true\n'
        'input_schema = "n.schema.json"\n'
    )
    said = local("handlers", "try", "written", "--input", '{"n": "one"}')
    assert said.code == Exit.USAGE
    assert "at /n: 'one' is not of type 'integer'" in said.err


def test_twice_with_effects_is_refused(local: Ctl) -> None:
    said = local("handlers", "try", "charge", "--twice", "--allow-effects")
    assert said.code == Exit.USAGE
    assert "twice" in said.err


# --- journal ----------------------------------------------------------------------------------


def test_a_live_journal_verifies_dumps_and_replays(ctl: Ctl, daemon: Daemon) -> None:
    operation = ctl("dispatch", "charge", "-o", "json").document
    verified = ctl("journal", "verify", str(daemon.state))
    assert verified.code == NOT_ANCHORED
    assert "intact, not anchored" in verified.out
    assert ctl("journal", "verify", str(daemon.state), "--require", "chain").code == 0
    dumped = ctl("journal", "dump", str(daemon.state), "-o", "jsonl").out.splitlines()
    kinds = [
        record["k"]
        for line in dumped
        if isinstance(payload := json.loads(line)["payload"], list)
        for record in payload
    ]
    assert "effect_confirmed" in kinds
    replayed = ctl("journal", "replay", str(daemon.state), "-o", "json").document["items"]
    assert operation["operation_id"] in {one["operation_id"] for one in replayed}


@pytest.mark.guarantee("J6")
def test_a_replayed_operation_is_the_one_that_the_daemon_serves(ctl: Ctl, daemon: Daemon) -> None:
    operation_id = ctl("dispatch", "doubt", "-o", "json").document["operation_id"]
    served = ctl("operations", "show", operation_id, "-o", "json").document
    line = ["journal", "replay", str(daemon.state), "--operation", operation_id]
    replayed = ctl(*line, "-o", "json").document
    recovery = replayed.pop("recovery")
    offered = ctl("operations", "recovery", operation_id, "-o", "json").document
    for document in (served["call"], replayed["call"], recovery, offered):
        document.get("freshness", {}).pop("as_of", None)  # what tells the present time
        for one in document["effects"]:
            one.pop("age_ms")
    assert replayed == served
    assert recovery == offered
    assert "effect charge announced" in ctl(*line).out


@pytest.fixture
def copied(daemon: Daemon, tmp_path: Path) -> Path:
    """A copy of the journal, for damaging."""
    return Path(shutil.copytree(daemon.state / "journal", tmp_path / "journal"))


@pytest.mark.guarantee("J5", "J6")
def test_a_damaged_journal_exits_2_and_names_file_and_offset(ctl: Ctl, copied: Path) -> None:
    ctl("dispatch", "echo")
    segment = min(copied.glob("*.jnl"))
    data = bytearray(segment.read_bytes())
    at = data.index(b'"k":"daemon_started"')
    data[at] ^= 1
    segment.write_bytes(bytes(data))
    verified = ctl("journal", "verify", str(copied))
    assert verified.code == DAMAGED
    assert "DAMAGED" in verified.out
    assert segment.name in verified.out
    assert ctl("journal", "dump", str(copied)).code == DAMAGED
    replayed = ctl("journal", "replay", str(copied))
    assert replayed.code == DAMAGED
    assert segment.name in replayed.err


@pytest.mark.parametrize("verb", ["verify", "dump", "replay"])
def test_a_directory_without_a_journal_could_not_be_read(
    verb: str, ctl: Ctl, tmp_path: Path
) -> None:
    said = ctl("journal", verb, str(tmp_path / "none"))
    assert said.code == 1
    assert "none" in said.out + said.err


def test_reading_a_journal_changes_nothing(ctl: Ctl, copied: Path) -> None:
    def stamps() -> dict[str, tuple[int, int, int]]:
        return {
            one.name: (one.stat().st_ino, one.stat().st_size, one.stat().st_mtime_ns)
            for one in copied.iterdir()
        }

    before = stamps()
    for verb in ("verify", "dump", "replay"):
        ctl("journal", verb, str(copied))
    assert stamps() == before


# --- config and doctor ------------------------------------------------------------------------


def test_config_show_prints_a_file_that_loads(local: Ctl, ctl: Ctl, tmp_path: Path) -> None:
    said = local("config", "show")
    assert said.code == 0
    file = tmp_path / "effectd.toml"
    file.write_text(said.out)
    file.chmod(0o600)
    again = ctl("config", "show", "--config", str(file), "-o", "json")
    assert again.document == local("config", "show", "-o", "json").document


def test_config_check_names_every_problem(ctl: Ctl, tmp_path: Path) -> None:
    file = tmp_path / "effectd.toml"
    file.write_text('socet = "/x"\nbudget_margin_ms = "7"\n')
    file.chmod(0o600)
    said = ctl("config", "check", "--config", str(file))
    assert said.code == Exit.FAILED
    assert "socet" in said.out
    assert "budget_margin_ms" in said.out
    assert "2 wrong" in said.out


def test_config_check_tries_every_manifest(local: Ctl, manifest: Path, daemon: Daemon) -> None:
    assert local("config", "check").code == Exit.DONE
    manifest.write_text("manifest = 2\n")
    said = local("config", "check")
    assert said.code == Exit.FAILED
    assert str(manifest) in said.out
    assert str(daemon.handlers / "echo.toml") in said.out


def test_doctor_without_a_daemon_says_so_and_probes_by_itself(local: Ctl) -> None:
    said = local("doctor", "-o", "json")
    items = said.document["items"]
    assert [one["state"] for one in items if one["what"] == "daemon"] == ["warning"]
    own = [one for one in items if one["part"] == "Sandbox, as this user would have it"]
    assert "pid_namespace" in {one["what"] for one in own}
