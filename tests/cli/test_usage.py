"""The command line itself: help, mistakes, what is loaded, and no traceback anywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.cli.__main__ import run
from supervisor.cli.app import COMMANDS, SINGULAR
from supervisor.cli.exits import Exit
from tests.cli.documents import CALL, EFF, OP

LATER = [
    ["top"],
    ["torture", "x"],
    ["drain"],
    ["metrics"],
    ["handlers", "new"],
]


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A socket that does not exist."""
    path = str(tmp_path / "none.sock")
    monkeypatch.setenv("EFFECTD_SOCKET", path)
    return path


@pytest.mark.parametrize("arguments", LATER, ids=" ".join)
def test_commands_of_later_versions_do_not_exist(arguments: list[str]) -> None:
    assert run(arguments) == Exit.USAGE


def test_a_mistyped_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["opertions"]) == Exit.USAGE
    assert "Did you mean 'operations'?" in capsys.readouterr().err


@pytest.mark.parametrize("noun", COMMANDS)
def test_every_command_has_help(noun: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([noun, "--help"]) == 0
    assert "Usage: effectctl" in capsys.readouterr().out


@pytest.mark.parametrize(("singular", "plural"), SINGULAR.items())
def test_nouns_are_understood_in_singular_and_plural(
    singular: str, plural: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run([singular, "--help"])
    first = capsys.readouterr().out
    run([plural, "--help"])
    assert capsys.readouterr().out == first.replace(f"effectctl {singular}", f"effectctl {plural}")


def test_without_a_command_the_help_is_printed_and_the_exit_is_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([]) == Exit.USAGE
    assert "Exit codes:" in capsys.readouterr().out


def _leaves() -> list[list[str]]:
    """Every command that does something, with just enough arguments."""
    import click

    from supervisor.cli.app import app

    enough = {
        "dispatch": ["h"],
        "completion": ["bash"],
        "explain": ["endings"],
        "cancel": [OP, "--reason", "r"],
        "extend": [OP, "--max-run-ms", "5", "--reason", "r"],
        "accept-artifacts": [OP, "--reason", "r"],
        "attest-dead": [CALL, "--reason", "r"],
        "resolve": [EFF, "--outcome", "applied", "--evidence", "e", "--if-revision", "1"],
        "reconcile": [EFF],
        "wait": [CALL],
        "result": [CALL],
        "output": [CALL],
        "note": [OP],
        "continue": [OP],
        "end": [OP, "--reason", "done"],
        "resume": [OP],
        "recovery": [OP],
        "checkpoint": [OP],
        "send": ["--program", "{}"],
        "answer": [OP, "ok", "--choice", "approve"],
    }
    shown = {"operations": OP, "calls": CALL, "effects": EFF, "handlers": "charge"}
    shown["sessions"] = "uid:0"
    found: list[list[str]] = []
    for noun in COMMANDS:
        command = app.get_command(click.Context(app), noun)  # type: ignore[attr-defined]
        if not isinstance(command, click.Group):
            found.append([noun, *enough.get(noun, [])])
            continue
        for verb in command.commands:
            more = [shown[noun]] if verb == "show" and noun in shown else enough.get(verb, [])
            found.append([noun, verb, *more])
    return found


OFFLINE = {"explain", "completion", "config", "journal", "doctor"}
ONLINE = [
    line
    for line in _leaves()
    if line[0] not in OFFLINE and line[:2] not in (["handlers", "check"], ["handlers", "try"])
]


@pytest.mark.parametrize("line", ONLINE, ids=lambda line: " ".join(line[:2]))
def test_without_a_daemon_every_command_exits_3_with_a_checklist(
    line: list[str], nowhere: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line) == Exit.UNREACHABLE
    said = capsys.readouterr()
    assert f"{nowhere}: missing" in said.err
    assert "fix:" in said.err
    assert said.out == ""


@pytest.mark.parametrize("line", _leaves(), ids=lambda line: " ".join(line[:2]))
def test_every_command_takes_output_and_socket(
    line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*line[: 2 if len(line) > 1 and not line[1].startswith("-") else 1], "--help"]) == 0
    text = capsys.readouterr().out
    assert "--output" in text
    # What it writes has formats of its own, and it is written without a daemon.
    assert "text|json|jsonl|ids" in text or line[:2] == ["journal", "export"]
    assert "--socket" in text or line[:2] == ["journal", "export"]


def test_the_socket_may_stand_before_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EFFECTD_SOCKET", raising=False)
    assert run(["--socket", str(tmp_path / "a.sock"), "status"]) == Exit.UNREACHABLE
    assert "a.sock" in capsys.readouterr().err


def test_a_socket_that_nobody_listens_on_is_refused_not_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import socket

    path = tmp_path / "old.sock"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
    assert run(["status", "--socket", str(path)]) == Exit.UNREACHABLE
    assert "refused" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may connect to every socket")
def test_a_socket_without_permission_names_the_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import socket

    path = tmp_path / "closed.sock"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
        bound.listen()
        path.chmod(0)
        assert run(["status", "--socket", str(path)]) == Exit.UNREACHABLE
    said = capsys.readouterr().err
    assert "permission denied" in said
    assert "usermod -aG" in said


@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{", b"\x00\x01\x02"],
    ids=["another protocol", "half an answer", "garbage"],
)
def test_a_stranger_on_the_socket_exits_3_without_a_traceback(
    answer: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import socket
    import threading

    path = tmp_path / "other.sock"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
        bound.listen()

        def serve() -> None:
            peer, _ = bound.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        code = run(["status", "--socket", str(path)])
        thread.join()
    assert code == Exit.UNREACHABLE
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["dispatch", "h", "--input", "{"], "not JSON"),
        (["dispatch", "h", "--input", "@/nowhere"], "No such file"),
        (["dispatch", "h", "--input", "NaN"], "NaN"),
        (["dispatch", "h", "--input", "[" * 100_000], "nested"),
        (["dispatch", "h", "--label", "x"], "KEY=VALUE"),
        (["dispatch", "h", "--label", "a=1", "--label", "a=2"], "twice"),
        (["dispatch", "h", "--timeout-ms", "0"], "0"),
        (["operations", "show", "op_0"], "too short"),
        (["operations", "show", CALL], "is the id of a call"),
        (["calls", "show", OP], "is the id of an operation"),
        (["effects", "show", OP], "is the id of an operation"),
        (["effects", "resolve", EFF, "--outcome", "applied", "--evidence", "x"], "--if-revision"),
        (
            ["effects", "resolve", EFF, "--outcome", "applied", "--if-revision", "1"],
            "--evidence",
        ),
        (
            [
                *["effects", "resolve", "--outcome", "applied", "--if-revision", "1", "--evidence"],
                " ",
                EFF,
            ],
            "empty",
        ),
        (
            [
                *[
                    "effects",
                    "resolve",
                    "--outcome",
                    "not_applied",
                    "--if-revision",
                    "1",
                    "--evidence",
                    "e",
                ],
                *["--result", "1", EFF],
            ],
            "--result belongs",
        ),
        (["operations", "cancel", OP], "--reason"),
        (["calls", "attest-dead", CALL], "--reason"),
        (["operations", "resume", OP, EFF, "--request-id", "r"], "several"),
        (["status", "-o", "xml"], "xml"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else value[:20],
)
def test_a_wrong_command_line_exits_2_and_says_what_is_wrong(
    line: list[str], said: str, nowhere: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line) == Exit.USAGE
    assert said in capsys.readouterr().err


def test_an_empty_list_of_ids_on_stdin_is_a_usage_error(
    nowhere: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert run(["operations", "show", "-"]) == Exit.USAGE
    assert "stdin was empty" in capsys.readouterr().err


# --- explain and completion -------------------------------------------------------------------


def test_explain_knows_codes_in_any_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "effectoutcomeunknown"]) == 0
    assert "EffectOutcomeUnknown: nobody can know" in capsys.readouterr().out


def test_explain_of_no_such_code_exits_4_and_names_near_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["explain", "EffectOutcome"]) == Exit.NOT_FOUND
    assert "EffectOutcomeUnknown" in capsys.readouterr().err


def test_explain_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    run(["explain", "-o", "json"])
    documents = json.loads(capsys.readouterr().out)["items"]
    run(["explain", "-o", "jsonl"])
    lines = capsys.readouterr().out.splitlines()
    run(["explain", "-o", "ids"])
    ids = capsys.readouterr().out.split()
    assert [json.loads(line) for line in lines] == documents
    assert ids == [one["code"] for one in documents]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_and_where_it_goes(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert "_EFFECTCTL_COMPLETE" in text
    assert "put it into" in text
    assert shell != "zsh" or text.startswith("#compdef effectctl\n")


def test_completion_completes(tmp_path: Path) -> None:
    done = _effectctl(
        "",
        _EFFECTCTL_COMPLETE="bash_complete",
        COMP_WORDS="effectctl operations re",
        COMP_CWORD="2",
    )
    assert done.stdout.split() == ["plain,recovery", "plain,resume"]


# --- as a process -----------------------------------------------------------------------------


def _effectctl(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "supervisor.cli", *arguments],
        env={**os.environ, **environment},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


HEAVY = {
    "attrs",
    "attr",
    "rich",
    "trio",
    "orjson",
    "effectd",
    "http",
    "asyncio",
    "psutil",
    "cattrs",
}


@pytest.mark.parametrize("line", [["--help"], ["operations", "--help"], ["dispatch", "--help"]])
def test_help_loads_click_and_nothing_heavy(line: list[str]) -> None:
    code = (
        "import sys; from supervisor.cli.__main__ import run; run(sys.argv[1:]); "
        "print('LOADED', *sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *line],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.rpartition("LOADED")[2].split())
    assert "click" in loaded
    assert not loaded & HEAVY


def test_a_reader_that_leaves_gets_no_complaint() -> None:
    shell = f"{sys.executable} -m supervisor.cli explain -o jsonl | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {shell}"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("environment", [{"LC_ALL": "C"}, {"LC_ALL": "", "LANG": "POSIX"}])
def test_in_a_c_locale_everything_is_ascii(environment: dict[str, str]) -> None:
    base = {"LC_CTYPE": "", "LANG": "", "EFFECTD_SOCKET": "/nowhere/größe.sock", **environment}
    done = _effectctl("status", **base)
    assert done.returncode == Exit.UNREACHABLE
    assert (done.stdout + done.stderr).isascii()
    assert "x /nowhere/gr" in done.stderr


def test_on_a_terminal_there_is_colour_and_no_color_takes_it_away() -> None:
    import pty

    def shown(**environment: str) -> str:
        leader, follower = pty.openpty()
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "supervisor.cli", "status", "--socket", "/nowhere/x"],
                env={**os.environ, "LANG": "C.UTF-8", "LC_ALL": "", "TERM": "xterm", **environment},
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                stdout=follower,
                stderr=follower,
            )
            os.close(follower)
            text = b""
            while True:
                try:
                    chunk = os.read(leader, 4096)
                except OSError:  # EIO: the last writer has closed the terminal
                    break
                if not chunk:
                    break
                text += chunk
            process.wait(60)
        finally:
            os.close(leader)
        return text.decode()

    assert re.search("\x1b\\[38;5;208m", shown())
    assert "\x1b" not in shown(NO_COLOR="1")
    assert "\x1b" not in shown(TERM="dumb")
