"""What starting a command touches, and what is said when a link of that chain is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import config
from config.load.chain import chain_of

NOT_EXECUTABLE = 0o644


def complaint(host, command: str) -> str:
    host.manifest("charge", command=command)
    (said,) = host.complaints("charge")
    return said


def test_the_chain_is_links_then_the_file_then_its_interpreters(host):
    script = host.program("v2/charge.py", "#!/usr/bin/env sh\n")
    link = host.root / "bin" / "current"
    link.symlink_to("v2")
    chain = chain_of(link / "charge.py")
    assert chain.own == script
    assert chain.touched[:3] == (link, script, Path(os.path.realpath("/usr/bin/env")))
    assert chain.touched[-1] == Path(os.path.realpath("/bin/sh"))
    assert chain.doubt is None


def test_a_program_is_searched_on_the_fixed_path_only(host, monkeypatch):
    host.program("my-tool")
    monkeypatch.setenv("PATH", f"{host.root}/bin:{os.environ['PATH']}")
    assert complaint(host, '["my-tool"]') == (
        "command[0]: no program 'my-tool' on /usr/local/bin:/usr/bin:/bin; install it, or write"
        " its path from the root"
    )
    (host.manifests / "my-tool").write_text("#!/bin/sh\n")
    assert complaint(host, '["my-tool"]').endswith(
        '; write "./my-tool" for the one beside the manifest'
    )
    host.manifest("charge", command='["sh", "-c", "true"]')
    assert host.load("charge").manifest.command[0] in ("/usr/bin/sh", "/bin/sh")


def test_env_in_a_first_line_searches_the_handlers_own_path(host):
    host.program("tools/my-python")
    program = host.program("charge", "#!/usr/bin/env my-python\n")
    host.manifest(
        "charge", f'env = {{ PATH = "{host.root}/bin/tools:/usr/bin" }}', command=f'["{program}"]'
    )
    assert host.root / "bin/tools/my-python" in host.load("charge").touched


@pytest.mark.parametrize(
    ("line", "interpreter"),
    [
        ("#!/usr/bin/env -S sh -e", "sh"),
        ("#!/usr/bin/env -S LANG=C sh -e", "sh"),
        ("#!/usr/bin/env LANG=C", None),
        ("#!/usr/bin/env -i", None),
        ("#!/usr/bin/env -S 'sh", None),
        ("#!/usr/bin/env /bin/sh", "sh"),
        ("#! /bin/sh -e", "sh"),
    ],
)
def test_what_env_starts_is_followed_where_its_argument_tells(host, line, interpreter):
    touched = chain_of(host.program("x", line + "\n")).touched
    ends = os.path.realpath("/bin/sh" if interpreter else "/usr/bin/env")
    assert str(touched[-1]) == ends


def test_links_that_go_up_are_followed(host):
    script = host.program("v2/deep/charge")
    (host.root / "bin" / "v2" / "up").symlink_to("../v2/deep")
    (host.root / "bin" / "absolute").symlink_to(host.root / "bin")
    chain = chain_of(host.root / "bin/absolute/v2/up/charge")
    assert chain.own == script
    assert chain.touched[:2] == (host.root / "bin/absolute", host.root / "bin/v2/up")


def test_a_program_that_effectd_cannot_read_has_no_digest_and_is_refused(host):
    program = host.program("x", mode=0o711)
    host.manifest("charge", command=f'["{program}"]')
    uid = os.geteuid()
    if uid == 0:  # root reads everything, so somebody else has to try
        os.seteuid(65_534)
    else:
        program.chmod(0o111)
    try:
        (said,) = host.complaints("charge")
    finally:
        os.seteuid(uid)
    assert said.startswith(f"command[0]: effectd (uid {uid or 65_534}) may not read ROOT/bin/x;")


NOEXEC = """
mount -t tmpfs -o noexec tmpfs "$1" || exit 77
printf '#!/bin/sh\\n' > "$1/x" && chmod +x "$1/x"
exec "$2" -c 'import sys, pathlib
from config.load.chain import chain_of
from config.problems import WrongValueError
try:
    chain_of(pathlib.Path(sys.argv[1]))
except WrongValueError as error:
    print(error.message, error.fix, sep="; ")
' "$1/x"
"""


def test_a_program_on_a_noexec_file_system_is_refused(host):
    place = host.root / "noexec"
    place.mkdir()
    child = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", NOEXEC, "sh", place, sys.executable],
        cwd=Path(config.__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if child.returncode and not child.stdout:
        pytest.skip(f"no mount namespace to be had here: {child.stderr.strip()}")
    assert child.stdout == (f"{place}/x is on a file system mounted noexec; install it elsewhere\n")


SCRIPTS: dict[str, tuple[str, str]] = {
    "missing interpreter": (
        "#!/usr/bin/python9\n",
        (
            "command[0]: /usr/bin/python9 does not exist, which the first line of ROOT/bin/x asks"
            " for; create it or correct the path"
        ),
    ),
    "missing interpreter behind env": (
        "#!/usr/bin/env python9\n",
        (
            "command[0]: no program 'python9' on /usr/local/bin:/usr/bin:/bin, which the first line"
            " of ROOT/bin/x asks for; install it, or write the interpreter's path from the root"
        ),
    ),
    "options behind env without -S": (
        "#!/usr/bin/env sh -e\n",
        (
            "command[0]: no program 'sh -e' on /usr/local/bin:/usr/bin:/bin, which the first line"
            " of ROOT/bin/x asks for: env takes its whole argument for one name; write"
            " #!/usr/bin/env -S sh -e"
        ),
    ),
    "Windows line ends": (
        "#!/bin/sh\r\n",
        (
            "command[0]: the first line of ROOT/bin/x ends in a carriage return, which the kernel"
            " takes for a part of the interpreter's name; save it with Unix line ends"
            " (sed -i 's/\\r$//' ROOT/bin/x)"
        ),
    ),
    "relative interpreter": (
        "#! python3\n",
        (
            "command[0]: the first line of ROOT/bin/x names no interpreter from the root; write"
            " #!/usr/bin/env NAME or #!/path/to/interpreter"
        ),
    ),
    "empty first line": (
        "#!\n",
        (
            "command[0]: the first line of ROOT/bin/x names no interpreter from the root; write"
            " #!/usr/bin/env NAME or #!/path/to/interpreter"
        ),
    ),
    "a first line longer than the kernel reads": (
        "#!/" + "a" * 300 + "\n",
        (
            "command[0]: the first line of ROOT/bin/x is longer than the 256 bytes the kernel"
            " reads; put the interpreter under a shorter path"
        ),
    ),
    "an interpreter that is a directory": (
        "#!/usr\n",
        (
            "command[0]: /usr is a directory, which the first line of ROOT/bin/x asks for; name the"
            " program in it"
        ),
    ),
}


@pytest.mark.parametrize("case", SCRIPTS)
def test_a_script_that_cannot_start_is_refused_in_these_words(host, case):
    content, said = SCRIPTS[case]
    program = host.program("x", content)
    assert complaint(host, f'["{program}"]') == said


def test_a_program_that_cannot_start_is_refused_in_these_words(host):
    root = host.root
    assert complaint(host, f'["{root}/bin/none"]') == (
        "command[0]: ROOT/bin does not exist, on the way to ROOT/bin/none; create it or correct"
        " the path"
    )
    program = host.program("x", mode=NOT_EXECUTABLE)
    assert complaint(host, f'["{program}"]') == (
        "command[0]: ROOT/bin/x is not executable; chmod +x ROOT/bin/x"
    )
    assert complaint(host, f'["{root}/bin"]') == (
        "command[0]: ROOT/bin is a directory; name the program in it"
    )
    assert complaint(host, f'["{root}/bin/x/y"]') == (
        "command[0]: a part of ROOT/bin/x/y before its last is no directory; correct the path"
    )
    (root / "bin" / "current").symlink_to(root / "v3")
    assert complaint(host, f'["{root}/bin/current/x"]') == (
        "command[0]: ROOT/v3 does not exist, to which the link ROOT/bin/current leads; create it"
        " or correct the path"
    )
    (root / "bin" / "loop").symlink_to("loop")
    assert complaint(host, f'["{root}/bin/loop"]') == (
        "command[0]: ROOT/bin/loop is a loop of symbolic links; point the link at a file"
    )
    os.mkfifo(root / "bin" / "fifo", 0o755)
    assert complaint(host, f'["{root}/bin/fifo"]') == (
        "command[0]: ROOT/bin/fifo is no regular file; name a program"
    )


def test_interpreters_of_interpreters_end_somewhere(host):
    first = host.program("i0", f"#!{host.root}/bin/i1\n")
    host.program("i1", f"#!{host.root}/bin/i0\n")
    assert complaint(host, f'["{first}"]') == (
        "command[0]: ROOT/bin/i0 needs more than 5 interpreters, one through the other; name a"
        " program as the interpreter"
    )


def test_the_reconciler_is_looked_up_like_the_command(host):
    host.manifest(
        "charge",
        '[[effect]]\nname = "a"\ncontract = "reconciliation"\n'
        'reconcile = { command = ["/no/such"] }',
    )
    assert host.complaints("charge") == [
        (
            "effect[0].reconcile.command[0]: /no does not exist, on the way to /no/such; create it"
            " or correct the path"
        )
    ]


def test_what_exec_may_not_know_and_what_no_digest_covers_is_a_warning(host):
    plain = host.program("plain", "echo hello\n")
    script = host.program("script.py", "print()\n")
    host.manifest("charge", command=f'["{plain}"]')
    (warning,) = host.load("charge").warnings
    assert warning.message == f'{plain} starts neither with "#!" nor as an ELF program'
    host.manifest("charge", command=f'["/bin/sh", "{script}"]')
    (warning,) = host.load("charge").warnings
    assert (warning.key, warning.fix) == (
        "command[1]",
        "list it in artifacts, or make it the command itself with a #! line",
    )
    host.manifest("charge", f'artifacts = ["{script}"]', command=f'["/bin/sh", "{script}"]')
    assert host.load("charge").warnings == ()


def test_a_program_that_no_handler_could_see_is_refused(host):
    state = host.config.state_dir
    state.mkdir()
    program = state / "charge"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert complaint(host, f'["{program}"]') == (
        "command[0]: ROOT/state/charge lies in ROOT/state, the state directory, which no handler"
        " may reach; install the program elsewhere"
    )


def test_a_program_may_stand_beside_its_manifest(host):
    beside = host.manifests / "charge.sh"
    beside.write_text("#!/bin/sh\n")
    beside.chmod(0o755)
    host.manifest("charge", command='["./charge.sh"]')
    assert host.load("charge").manifest.command == (str(beside),)
