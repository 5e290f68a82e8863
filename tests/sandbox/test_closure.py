"""What is exposed for a command when nothing is declared."""

# These tests may hold up their event loop: nothing else is in it.

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.hidden import SHARED
from sandbox import elf
from sandbox.closure import BROAD, closure
from tests.sandbox.projects import compiled, program


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


def real(*paths: Path) -> set[str]:
    return set(map(str, paths))


def test_a_deployment_by_a_link_shows_the_release_and_the_way_there(tmp_path: Path) -> None:
    release = tmp_path / "releases/7"
    program(release / ".venv/bin/python", "#!/bin/sh\n")
    (release / ".venv/pyvenv.cfg").write_text("home = /usr/bin\n")
    (tmp_path / "releases/latest").symlink_to("7")
    (tmp_path / "current").symlink_to("releases/latest")
    script = tmp_path / "current/main.py"
    program(release / "main.py", f"#!{tmp_path}/current/.venv/bin/python\n")
    found = closure(str(script), home="/nowhere")
    # Nothing is exposed through a link: each link stands for itself, and what it leads to is real.
    assert set(found.paths) == real(
        tmp_path / "current", tmp_path / "releases/latest", tmp_path / "releases/7"
    )
    assert str(tmp_path / "current") in found.looked


def test_no_path_of_a_closure_lies_behind_a_link(tmp_path: Path) -> None:
    program(tmp_path / "b/c/tool", "#!/bin/sh\n")
    (tmp_path / "b/d").symlink_to("c")
    (tmp_path / "a").symlink_to(tmp_path / "b")
    found = closure(str(tmp_path / "a/d/tool"), home="/nowhere")
    assert set(found.paths) == real(tmp_path / "a", tmp_path / "b/d", tmp_path / "b/c")
    for path in found.paths:
        assert Path(path).parent.resolve() == Path(path).parent


@pytest.mark.parametrize(
    ("line", "interpreter"),
    [
        ("#!/usr/bin/env tool", "PATH/tool"),
        ("#!/usr/bin/env -S A=1 tool -e", "PATH/tool"),
        ("#!/usr/bin/env -S -u HOME -i tool", "PATH/tool"),
        ("#!/usr/bin/env -S PATH=OTHER tool", "OTHER/tool"),
        ("#!/usr/bin/env -S 'OTHER/tool' -x", "OTHER/tool"),
        ("#! PATH/tool  -x", "PATH/tool"),
        ('#!/bin/sh\n\'\'\'exec\' "OTHER/tool" "$0" "$@"', "OTHER/tool"),
    ],
)
def test_the_interpreter_is_found_as_the_kernel_and_env_find_it(
    tmp_path: Path, line: str, interpreter: str
) -> None:
    names = {"PATH": str(tmp_path / "path"), "OTHER": str(tmp_path / "other one")}
    if "PATH=OTHER" in line:
        names["OTHER"] = str(tmp_path / "other")

    def filled(text: str) -> str:
        return (
            text.replace("PATH=", "\0")
            .replace("PATH", names["PATH"])
            .replace("OTHER", names["OTHER"])
            .replace("\0", "PATH=")
        )

    for folder in names.values():
        program(Path(folder, "tool"), "#!/bin/sh\n")
    script = program(tmp_path / "app/run", filled(line) + "\n")
    found = closure(str(script), home="/nowhere", search_path=f"/none:{names['PATH']}")
    assert filled(interpreter) in found.chain
    other = {str(Path(folder, "tool")) for folder in names.values()} - {filled(interpreter)}
    assert not other & set(found.chain)


def test_what_no_first_line_can_mean_is_left_to_the_kernel(tmp_path: Path) -> None:
    for number, line in enumerate(
        (b"#!", b"#! ", b"#!relative", b"\0\xff#!", b"#!/usr/bin/env -S 'x")
    ):
        script = tmp_path / f"app/{number}"
        script.parent.mkdir(exist_ok=True)
        script.write_bytes(line + b"\n")
        assert set(closure(str(script), home="/nowhere").paths) == real(tmp_path / "app")


def test_of_a_home_and_of_its_hidden_directories_only_the_file_is_shown(tmp_path: Path) -> None:
    for place in (".", ".config", ".local"):
        tool = program(tmp_path / place / "tool", "#!/bin/sh\n")
        program(tmp_path / place / "key", "")
        found = closure(str(tool), home=str(tmp_path))
        assert found.paths == (str(tool),)
        assert "put it in a folder of its own" in found.warnings[0]
    program(tmp_path / "project/tool", "#!/bin/sh\n")
    found = closure(str(tmp_path / "project/tool"), home=str(tmp_path))
    assert (found.paths, found.warnings) == ((str(tmp_path / "project"),), ())


def test_a_users_own_bin_shows_bin_and_lib_and_never_the_keyrings_beside_them(
    tmp_path: Path,
) -> None:
    local = tmp_path / ".local"
    tool = program(local / "bin/tool", "#!/bin/sh\n")
    program(local / "lib/data", "")
    program(local / "share/keyrings/login.keyring", "")
    assert set(closure(str(tool), home=str(tmp_path)).paths) == real(local / "bin", local / "lib")
    # A link in it, as pipx makes them, leads to the environment that it belongs to.
    venv = local / "share/pipx/venvs/tool"
    program(venv / "bin/python", "#!/bin/sh\n")
    program(venv / "bin/piped", f"#!{venv}/bin/python\n")
    (venv / "lib").mkdir()
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (local / "bin/piped").symlink_to(venv / "bin/piped")
    found = closure(str(local / "bin/piped"), home=str(tmp_path))
    assert set(found.paths) == real(
        local / "bin", local / "lib", venv / "bin", venv / "lib", venv / "pyvenv.cfg"
    )


def test_packages_of_one_user_are_said_to_need_their_base(tmp_path: Path) -> None:
    local = tmp_path / ".local"
    tool = program(local / "bin/tool", "#!/usr/bin/python3\n")
    (local / "lib/python3.11/site-packages").mkdir(parents=True)
    (warning,) = closure(str(tool), home=str(tmp_path)).warnings
    assert f'set env = {{ PYTHONUSERBASE = "{local}" }}' in warning


def venv_in(folder: Path, base: Path) -> Path:
    """A virtual environment's bones, with its python a link to that of ``base``."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib/python3.11/site-packages").mkdir(parents=True)
    (folder / "bin/python").symlink_to(base / "bin/python3.11")
    (folder / "pyvenv.cfg").write_text(f"home = {base}/bin\nversion = 3.11.2\n")
    return program(folder / "bin/tool", f"#!{folder}/bin/python\n")


def test_a_virtual_environment_brings_the_installation_it_is_based_on(tmp_path: Path) -> None:
    # As pyenv lays it out, and as uv does, with a link for the minor version.
    base = tmp_path / "versions/cpython-3.11.9"
    program(base / "bin/python3.11", "#!/bin/sh\n")
    (base / "lib/python3.11").mkdir(parents=True)
    program(base / "share/man/secret", "")
    (tmp_path / "versions/cpython-3.11").symlink_to("cpython-3.11.9")
    venv = tmp_path / "app/.venv"
    tool = venv_in(venv, tmp_path / "versions/cpython-3.11")
    found = closure(str(tool), home="/nowhere")
    assert set(found.paths) == real(
        *(venv / part for part in ("bin", "lib", "pyvenv.cfg")),
        *(base / part for part in ("bin", "lib")),
        tmp_path / "versions/cpython-3.11",
    )
    assert found.warnings == ()


def test_a_conda_prefix_is_nobodys_home_and_brings_its_data(tmp_path: Path) -> None:
    prefix = tmp_path / "miniconda3/envs/work"
    for part in ("conda-meta", "lib", "share", "ssl", "etc"):
        (prefix / part).mkdir(parents=True)
    tool = program(prefix / "bin/tool", "#!/bin/sh\n")
    assert set(closure(str(tool), home="/nowhere").paths) == real(
        *(prefix / part for part in ("bin", "lib", "share", "ssl", "etc"))
    )


@pytest.mark.parametrize("kind", ["path", "finder"])
def test_an_editable_installation_elsewhere_is_said_to_need_read(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "elsewhere/src"
    (source / "mine").mkdir(parents=True)
    venv = tmp_path / "app/.venv"
    tool = venv_in(venv, Path("/usr"))
    site = venv / "lib/python3.11/site-packages"
    if kind == "path":
        (site / "__editable__.mine.pth").write_text(f"# a comment\n\n{source}\n")
    else:
        name = "__editable___mine_1_0_finder"
        (site / "__editable__.mine.pth").write_text(f"import {name}; {name}.install()")
        (site / f"{name}.py").write_text(
            f"MAPPING: dict[str, str] = {{'mine': '{source}/mine', 'odd': 3}}\nNAMESPACES = {{}}\n"
        )
    (site / "harmless.pth").write_text("import os; os\n./inside\n/not/there\n")
    (site / "broken.pth").write_text("import __editable___x_finder\n")
    (site / "__editable___x_finder.py").write_text("MAPPING = {'a': f()}\n")
    (warning,) = closure(str(tool), home="/nowhere").warnings
    assert f"its packages lie in {source}, which the handler does not see" in warning
    assert warning.endswith("name that in [sandbox] read if it needs them")


def test_a_node_tool_brings_its_package_and_the_modules_around_it(tmp_path: Path) -> None:
    app = tmp_path / "app"
    modules = app / "node_modules"
    (app / "package.json").parent.mkdir(parents=True)
    (app / "package.json").write_text("{}")
    cli = program(modules / "tool/dist/cli.js", "#!/usr/bin/env node\n")
    (modules / "tool/package.json").write_text("{}")
    program(modules / "dep/index.js", "")
    (modules / ".bin").mkdir()
    (modules / ".bin/tool").symlink_to("../tool/dist/cli.js")
    for command in (cli, modules / ".bin/tool"):
        assert set(closure(str(command), home="/nowhere").paths) == real(modules)
    # A script of the application itself: its modules are found upwards from it.
    script = program(app / "src/deep/main.mjs", "#!/usr/bin/env node\n")
    assert set(closure(str(script), home="/nowhere").paths) == real(app)
    # A home that happens to be a package is a home first.
    found = closure(str(script), home=str(app))
    assert set(found.paths) == real(app / "src/deep", modules, app / "package.json")


def test_a_node_of_a_version_manager_brings_its_prefix(tmp_path: Path) -> None:
    prefix = tmp_path / ".nvm/versions/node/v20.1.0"
    program(prefix / "bin/node", "#!/bin/sh\n")
    program(prefix / "lib/node_modules/tool/cli.js", f"#!{prefix}/bin/node\n")
    (prefix / "bin/tool").symlink_to("../lib/node_modules/tool/cli.js")
    found = closure(str(prefix / "bin/tool"), home=str(tmp_path))
    assert set(found.paths) == real(prefix / "bin", prefix / "lib")


# --- compiled programs ----------------------------------------------------------------------


def test_a_compiled_program_brings_the_libraries_that_it_names(tmp_path: Path) -> None:
    made = compiled(tmp_path / "app/x", rpath="$ORIGIN/../libs", libraries=tmp_path / "app/libs")
    assert set(closure(str(made), home="/nowhere").paths) == real(
        tmp_path / "app/x", tmp_path / "app/libs"
    )
    # Of a directory that is not the program's own only the libraries that it asks for.
    made = compiled(tmp_path / "app/y", rpath=str(tmp_path), libraries=tmp_path)
    assert set(closure(str(made), home=str(tmp_path)).paths) == real(
        tmp_path / "app/y", tmp_path / "libown.so"
    )


def test_a_loader_of_its_own_is_shown_too(tmp_path: Path) -> None:
    loader = program(tmp_path / "loader/ld.so", "")
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "app").mkdir()
    made = tmp_path / "app/main"
    subprocess.run(
        ["cc", "-o", made, tmp_path / "main.c", f"-Wl,--dynamic-linker={loader}"], check=True
    )
    assert set(closure(str(made), home="/nowhere").paths) == real(tmp_path / "app", loader)


def test_the_system_names_what_it_is_known_to_name() -> None:
    found = elf.needs(Path("/bin/sh").resolve())
    assert found.loader is not None
    assert found.loader.exists()
    assert any(name.startswith("libc.so") for name in found.libraries)


@given(st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_damaged_program_is_never_a_fault(data: st.DataObject) -> None:
    whole = bytearray(Path("/bin/true").resolve().read_bytes()[:8_192])
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, 900))
        whole[at] = data.draw(st.integers(0, 255))
    del whole[data.draw(st.integers(0, len(whole))) :]
    with tempfile.TemporaryDirectory() as folder:
        damaged = Path(folder, "x")
        damaged.write_bytes(whole)
        elf.needs(damaged)


def test_both_sides_call_the_same_directories_everybodys() -> None:
    assert set(map(str, SHARED)) == BROAD


def test_this_interpreter_is_found_through_its_venv() -> None:
    found = closure(sys.executable, home="/nowhere")
    assert Path(sys.executable).resolve() in {Path(path).resolve() for path in found.chain}
