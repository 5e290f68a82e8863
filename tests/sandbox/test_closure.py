"""What is exposed for a command when nothing is declared."""

# These tests may hold up their event loop: nothing else is in it.
# ruff: noqa: ASYNC221, ASYNC240

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.closure import closure
from sandbox.spec import Ended, Spec
from tests.sandbox.support import launched, run_to_end


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_system_command_needs_nothing() -> None:
    for command in ("/bin/true", "/usr/bin/python3"):
        found = closure(command)
        assert (found.chain[0], found.paths, found.warnings) == (command, (), ())


def test_a_script_brings_its_folder_and_its_interpreter(tmp_path: Path) -> None:
    tool = program(tmp_path / "opt/interp/bin/run", "#!/bin/sh\n")
    (tmp_path / "opt/interp/lib").mkdir()
    script = program(tmp_path / "app/main", f"#!{tool} -x\n")
    found = closure(str(script), home="/nowhere")
    assert found.chain[:3] == (str(script), str(tool), "/bin/sh")
    assert set(found.paths) == {
        str(tmp_path / "app"),
        str(tmp_path / "opt/interp/bin"),
        str(tmp_path / "opt/interp/lib"),
    }


def test_links_are_followed_to_where_the_program_really_is(tmp_path: Path) -> None:
    program(tmp_path / "v2/tool", "#!/bin/sh\n")
    (tmp_path / "current").symlink_to("v2")
    (tmp_path / "links").mkdir()
    (tmp_path / "links/tool").symlink_to("../current/tool")
    found = closure(str(tmp_path / "links/tool"), home="/nowhere")
    assert {str(tmp_path / name) for name in ("links", "current", "v2")} == set(found.paths)


def test_a_home_is_never_exposed_as_a_whole(tmp_path: Path) -> None:
    script = program(tmp_path / "tool", "#!/bin/sh\n")
    program(tmp_path / ".ssh/key", "")
    found = closure(str(script), home=str(tmp_path))
    assert found.paths == (str(script),)
    assert "folder of its own" in found.warnings[0]


def test_env_finds_its_program_and_what_is_missing_is_a_warning(tmp_path: Path) -> None:
    script = program(tmp_path / "a/x", "#!/usr/bin/env -S A=1 sh -e\n")
    assert {"/usr/bin/env", "/usr/bin/sh"} <= set(closure(str(script), home="/nowhere").chain)
    broken = program(tmp_path / "b/x", "#!/no/interpreter\n")
    assert closure(str(broken), home="/nowhere").warnings == (
        "/no/interpreter: No such file or directory",
    )
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    assert closure(str(loop), home="/nowhere").chain == (str(loop),)


@pytest.mark.guarantee("S4")
async def test_a_venv_script_runs_with_nothing_declared(open_folder: Path) -> None:
    base = Path("/usr/bin/python3")
    if not base.exists():
        pytest.skip("needs a system python3, which every uid can reach")
    folder = open_folder / "project"
    make = "import sys, venv; venv.create(sys.argv[1], with_pip=False)"
    subprocess.run([base, "-c", make, folder / ".venv"], check=True)
    (folder / "sibling.py").write_text("VALUE = 'sibling'\n")
    script = program(
        folder / "main.py",
        f"#!{folder}/.venv/bin/python\n"
        "import os, sys, sibling, ssl, sqlite3\n"
        "print(sibling.VALUE, sys.prefix != sys.base_prefix, os.listdir(sys.argv[1]))\n",
    )
    (open_folder / "beside").touch()
    paths = closure(str(script), home="/nowhere").paths
    async with launched() as launcher:
        end, out, err = await run_to_end(
            launcher, (str(script), str(open_folder)), spec=Spec(closure=paths)
        )
    assert isinstance(end, Ended)
    assert (end.status, out) == (0, b"sibling True ['project']\n"), err


def test_this_interpreter_is_found_through_its_venv() -> None:
    found = closure(sys.executable, home="/nowhere")
    assert Path(sys.executable).resolve() in {Path(path).resolve() for path in found.chain}
