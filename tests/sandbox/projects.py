"""Programs as people lay them out on a host: made below a directory, each with what it prints."""

from __future__ import annotations

import subprocess
from pathlib import Path


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def compiled(folder: Path, *, rpath: str, libraries: Path) -> Path:
    """A program that needs a library of its own, found by its RUNPATH."""
    folder.mkdir(parents=True, exist_ok=True)
    libraries.mkdir(parents=True, exist_ok=True)
    (folder / "own.c").write_text('const char *own(void) { return "its own library"; }\n')
    (folder / "main.c").write_text(
        "#include <stdio.h>\nconst char *own(void);\nint main(void) { puts(own()); return 0; }\n"
    )
    library, made = libraries / "libown.so", folder / "main"
    subprocess.run(["cc", "-shared", "-o", library, folder / "own.c"], check=True)
    subprocess.run(
        ["cc", "-o", made, folder / "main.c", library, f"-Wl,-rpath,{rpath}"], check=True
    )
    return made


def _python_project(folder: Path) -> tuple[Path, bytes]:
    base = Path("/usr/bin/python3")
    make = "import sys, venv; venv.create(sys.argv[1], with_pip=False)"
    subprocess.run([base, "-c", make, folder / ".venv"], check=True)
    (folder / "sibling.py").write_text("VALUE = 'sibling'\n")
    script = program(
        folder / "main.py",
        f"#!{folder}/.venv/bin/python\n"
        "import sys, sibling, ssl, sqlite3\n"
        "print(sibling.VALUE, sys.prefix != sys.base_prefix)\n",
    )
    return script, b"sibling True\n"


def _python_release(folder: Path) -> tuple[Path, bytes]:
    """The same, deployed by a link."""
    (folder / "releases").mkdir(parents=True)
    (folder / "current").symlink_to("releases/1")
    (folder / "releases/1").mkdir()
    _python_project(folder / "current")
    return folder / "current/main.py", b"sibling True\n"


def _node_tool(folder: Path) -> tuple[Path, bytes]:
    modules = folder / "node_modules"
    program(
        modules / "tool/dist/cli.js",
        "#!/usr/bin/env node\nconsole.log(require('dep'), require('../own').own)\n",
    )
    (modules / "tool/package.json").write_text('{"name": "tool"}')
    (modules / "tool/own.js").write_text("exports.own = 'own'\n")
    (modules / "dep").mkdir()
    (modules / "dep/index.js").write_text("module.exports = 'dep'\n")
    (modules / ".bin").mkdir()
    (modules / ".bin/tool").symlink_to("../tool/dist/cli.js")
    return modules / ".bin/tool", b"dep own\n"


def _shell_script(folder: Path) -> tuple[Path, bytes]:
    folder.mkdir(parents=True)
    (folder / "common.sh").write_text("word=sourced\n")
    text = '#!/bin/sh\n. "$(dirname "$0")/common.sh"\necho "$word $HOME $TMPDIR $LANG"\n'
    return program(folder / "run.sh", text), b"sourced /tmp/home /tmp C.UTF-8\n"


def _compiled_program(folder: Path) -> tuple[Path, bytes]:
    made = compiled(folder / "sbin", rpath="$ORIGIN/../libs", libraries=folder / "libs")
    return made, b"its own library\n"


def _packaged_script(folder: Path) -> tuple[Path, bytes]:
    """As installers write it where the interpreter's path has a blank in it."""
    own = folder / "with blank"
    own.mkdir(parents=True)
    _python_project(own)
    script = own / ".venv/bin/tool"
    text = (
        f"#!/bin/sh\n'''exec' \"{own}/.venv/bin/python\" \"$0\" \"$@\"\n' '''\n"
        "import sys\nprint('packaged', sys.prefix != sys.base_prefix)\n"
    )
    return program(script, text), b"packaged True\n"


PROJECTS = {
    "python": _python_project,
    "release": _python_release,
    "node": _node_tool,
    "shell": _shell_script,
    "compiled": _compiled_program,
    "packaged": _packaged_script,
}
