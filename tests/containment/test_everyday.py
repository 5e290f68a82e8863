"""Real programs inside `strict` with an empty [sandbox], or with what the test says they need."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import shutil
import zipfile
from pathlib import Path
from typing import Any, Final

import pytest

from sandbox.spec import Ended, Spec
from tests.containment.support import PYTHON, Programs
from tests.sandbox.support import launched, run_to_end

PYTHON_PROGRAMS: Final = (
    *("threads", "subprocesses", "pool", "queues", "spawned", "shared_memory", "event_loop"),
    *("database", "files", "sockets", "machine_code", "signals_and_limits", "user"),
)


def needed(*programs: str) -> None:
    """Skip where one of them is not installed; in CI all of them are."""
    missing = [name for name in programs if shutil.which(name, path="/usr/bin:/bin") is None]
    if missing:
        pytest.skip(f"not installed here: {', '.join(missing)}")


async def said(argv: tuple[str, ...], spec: Spec, **command: Any) -> str:
    """What it wrote to its standard output before it ended with 0."""
    async with launched() as launcher:
        end, out, err = await run_to_end(launcher, argv, spec=spec, **command)
    assert isinstance(end, Ended), end
    assert (end.how, end.status) == ("exited", 0), (out.decode(), err.decode())
    return out.decode()


def shell(script: str) -> tuple[str, ...]:
    return ("/bin/sh", "-e", "-c", script)


@pytest.mark.parametrize("name", PYTHON_PROGRAMS)
async def test_python(programs: Programs, name: str) -> None:
    argv = (PYTHON, str(programs.folder / "everyday.py"), name)
    assert await said(argv, programs.spec()) == f"done {name}\n"


# Name: the programs, the script, what it prints.
SCRIPTS: Final[dict[str, tuple[str, str, str]]] = {
    "redirections": (
        "sh",
        (
            "echo out > /dev/stdout; echo lost > /dev/null; echo err > /dev/stderr;"
            " cat < /dev/null; cat /dev/fd/0 > /dev/null; echo a >> /tmp/log; cat /tmp/log"
        ),
        "out\na\n",
    ),
    "a here-document and a pipeline": (
        "awk sed sort tr",
        "cat <<END | sort -r | sed s/a/b/ | tr b c | awk '{print NR $1}'\na1\na2\nEND",
        "1c2\n2c1\n",
    ),
    "bash with process substitution": (
        "bash",
        "bash -c 'diff <(echo a) <(echo a) && mapfile -t x < <(seq 3) && echo ${#x[@]}'",
        "3\n",
    ),
    "job control of a shell": (
        "sh",
        "sleep 60 & kill $!; wait $! || test $? = 143; (echo sub) & wait; trap 'echo bye' EXIT",
        "sub\nbye\n",
    ),
    "archives": (
        "tar gzip xz",
        (
            "mkdir /tmp/d; seq 1000 > /tmp/d/f; cd /tmp; tar czf a.tgz d; tar cJf a.txz d;"
            " rm -r d; tar xzf a.tgz; tar xJf a.txz; tail -n1 d/f"
        ),
        "1000\n",
    ),
    "a compiler and its program": (
        "cc",
        (
            "cd /tmp; printf '#include <stdio.h>\\nint main(){puts(\"built\");}' > a.c;"
            " cc -O2 -o a a.c; ./a"
        ),
        "built\n",
    ),
    "make": (
        "make cc",
        (
            "cd /tmp; printf 'a: a.c\\n\\tcc -o a a.c\\n' > Makefile;"
            " echo 'int main(){return 0;}' > a.c; make -j4 > /dev/null; ./a; echo made"
        ),
        "made\n",
    ),
    "perl": ("perl", "perl -MSocket -e 'print join(q( ), map {$_*2} 1..3), qq(\\n)'", "2 4 6\n"),
    "git on its own": (
        "git",
        (
            "cd /tmp; git init -q r; cd r; echo x > f; git add f;"
            " git -c user.name=n -c user.email=e@x commit -q -m one; git mv f g;"
            " git -c user.name=n -c user.email=e@x commit -q -m two; git clone -q . ../copy;"
            " git -C ../copy gc -q; git -C ../copy log --format=%s"
        ),
        "two\none\n",
    ),
    "the time and the locale": (
        "date",
        "TZ=Asia/Tokyo date -d @0 +%H; locale charmap",
        "09\nUTF-8\n",
    ),
    "openssl": (
        "openssl",
        (
            "cd /tmp; openssl genpkey -algorithm ed25519 -out k 2> /dev/null;"
            " openssl pkey -in k -pubout > p; echo x > m;"
            " openssl pkeyutl -sign -rawin -inkey k -in m -out s;"
            " openssl pkeyutl -verify -pubin -rawin -inkey p -in m -sigfile s"
        ),
        "Signature Verified Successfully\n",
    ),
    "find, xargs and a temporary file": (
        "find xargs",
        (
            "t=$(mktemp); echo data > $t; find /tmp -maxdepth 1 -type f | xargs cat;"
            " flock $t true; timeout 5 nice true; nohup true 2> /dev/null"
        ),
        "data\n",
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
async def test_shell(name: str) -> None:
    programs, script, prints = SCRIPTS[name]
    needed(*programs.split())
    assert await said(shell(script), Spec()) == prints


NODE = """
const { execFileSync, spawnSync } = require("child_process");
const { Worker } = require("worker_threads");
const fs = require("fs"), os = require("os"), net = require("net");
const assert = require("assert");
assert.ok(os.networkInterfaces().lo);
assert.equal(execFileSync("echo", ["hi"]).toString(), "hi\\n");
assert.equal(spawnSync("sh", ["-c", "exit 3"]).status, 3);
fs.writeFileSync("/tmp/f", "x"); fs.watch("/tmp/f").close();
let sum = 0; for (let n = 0; n < 1e6; n++) sum += n % 7;
new Worker("require('worker_threads').parentPort.postMessage(42)", { eval: true })
  .on("message", (answer) => {
    const server = net.createServer((c) => c.end("served")).listen(0, "127.0.0.1", () => {
      net.connect(server.address().port, "127.0.0.1").on("data", (data) => {
        console.log(answer, String(data)); server.close(); });
    });
  });
"""


@pytest.mark.usefixtures("user_inotify")
@pytest.mark.parametrize("network", ["none", "host"])
async def test_node(network: str) -> None:
    needed("node")
    argv = ("/usr/bin/node", "-e", NODE)
    assert await said(argv, Spec(network=network)) == "42 served\n"


async def test_node_talks_over_fd_3(programs: Programs) -> None:
    needed("node")
    code = (
        "const s = new (require('net').Socket)({fd: 3});"
        "s.on('data', (d) => { console.log(JSON.stringify('heard ' + d.toString().trim()));"
        " s.end(); process.exit(0); }); console.log('true');"
    )
    from tests.containment.support import Held

    async with (
        launched() as launcher,
        Held(launcher, ("/usr/bin/node", "-e", code), programs.spec()) as held,
    ):
        assert await held.go("leave") == "heard leave"


@pytest.mark.long
async def test_java(folder: Path) -> None:
    needed("java", "javac")
    source = folder / "Main.java"
    source.write_text(
        "public class Main { public static void main(String[] a) throws Exception {"
        " var t = new Thread(() -> {}); t.start(); t.join();"
        ' var p = new ProcessBuilder("echo", "java").inheritIO().start(); p.waitFor();'
        " try (var s = new java.net.ServerSocket(0)) {"
        '  new java.net.Socket("localhost", s.getLocalPort()).close(); } } }'
    )
    argv = shell(f"cd /tmp; javac -d . {source}; java -Xmx64m Main")
    assert await said(argv, Spec(read=(str(folder),), tasks_max=256)) == "java\n"


def wheel(folder: Path) -> Path:
    """A package that can be installed, made without any tool."""
    name = folder / "greeting-1.0-py3-none-any.whl"
    files = {
        "greeting.py": "def main(): print('installed')\n",
        "greeting-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
        "greeting-1.0.dist-info/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
        "greeting-1.0.dist-info/entry_points.txt": "[console_scripts]\ngreet = greeting:main\n",
    }
    record = "greeting-1.0.dist-info/RECORD"
    with zipfile.ZipFile(name, "w") as made:
        lines = []
        for path, text in files.items():
            made.writestr(path, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
            lines.append(f"{path},sha256={digest.rstrip(b'=').decode()},{len(text)}")
        made.writestr(record, "\n".join([*lines, f"{record},,"]) + "\n")
    return name


async def test_pip_installs_a_local_wheel(folder: Path) -> None:
    pip = importlib.util.find_spec("pip")
    if pip is None or pip.origin is None:
        pytest.skip("pip is not importable here")
    shutil.copytree(Path(pip.origin).parent, folder / "tools" / "pip")
    script = (
        f"export PYTHONPATH={folder}/tools; {PYTHON} -m pip install --quiet --no-index --no-deps"
        f" --disable-pip-version-check --target /tmp/site {wheel(folder)};"
        f" PYTHONPATH=/tmp/site {PYTHON} -c 'import greeting; greeting.main()'"
    )
    assert await said(shell(script), Spec(read=(str(folder),))) == "installed\n"


async def test_a_virtual_environment_is_made_and_used(folder: Path) -> None:
    script = (
        f"{PYTHON} -m venv --without-pip /tmp/venv;"
        " /tmp/venv/bin/python -c 'import sys; print(sys.prefix)'"
    )
    assert await said(shell(script), Spec()) == "/tmp/venv\n"
