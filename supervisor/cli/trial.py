"""A handler tried in the sandbox that it would get: every path it names, used from inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

import attrs
import trio

from supervisor.cli.denials.outside import Host
from supervisor.cli.denials.watch import ids_of
from supervisor.cli.remedies import Said, remedy
from supervisor.cli.render_handlers import Check

if TYPE_CHECKING:
    from config.load import Handler
    from config.schema import Config
    from sandbox.client import Launcher, Sandbox
    from sandbox.spec import Spec

Kind = Literal["read", "run", "write", "unix", "names"]

# One line an item: `yes`, or `no` and what the kernel said. Nothing outside is changed: what is
# made to try a directory is removed again, and a file is opened to append and not written to.
# An open is asked for only where it cannot hang (not of a pipe that nobody writes to).
SCRIPT = r"""
LC_ALL=C; export LC_ALL
run() { "$@" 2>&1 >/dev/null </dev/null && return; echo "exit $?"; }
read_() {
  if test -d "$1"; then cd "$1"; elif test -f "$1" || test -c "$1"; then : <"$1"
  else test -e "$1" || echo 'No such file'; test -r "$1" || echo 'Permission denied'; fi
}
run_() {
  read_ "$1"
  test -x "$1" || echo 'Permission denied'
  ldd "$1" 2>/dev/null | sed -n 's/^[[:space:]]*\(.*\) => not found.*/needs \1/p'
}
write_() {
  if test -d "$1"; then set -C; new=$1/.effectd-check-$$; : >"$new" && rm "$new"
  elif test -e "$1"; then : >>"$1"; else echo 'No such file'; fi
}
unix_() {
  if test ! -S "$1"; then echo 'No such file'
  elif command -v python3 >/dev/null; then run python3 -I -S -c "$connect_python" "$1"
  elif command -v perl >/dev/null; then
    run perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Peer => shift) or die "$!"' "$1"
  else test -w "$1" || echo 'Permission denied'; fi
}
names_() {
  RES_OPTIONS='timeout:1 attempts:1'; export RES_OPTIONS
  if command -v python3 >/dev/null; then run python3 -I -S -c "$names_python" "$1"
  elif command -v perl >/dev/null; then
    run perl -MSocket=getaddrinfo,EAI_AGAIN -e \
      'my ($e) = getaddrinfo(shift, ""); die "no answer" if $e == EAI_AGAIN' "$1"
  fi
}
connect_python='
import errno, socket, sys
one = socket.socket(socket.AF_UNIX)
one.settimeout(2)
try:
    one.connect(sys.argv[1])
except OSError as error:
    if error.errno != errno.EPROTOTYPE:  # it takes datagrams, and is there
        print(error.strerror or error, file=sys.stderr)
        sys.exit(1)
'
names_python='
import socket, sys
try:
    socket.getaddrinfo(sys.argv[1], None)
except socket.gaierror as error:
    sys.exit("no answer" if error.errno == socket.EAI_AGAIN else 0)
'
for item do
  said=$( { "${item%%:*}_" "${item#*:}"; } 2>&1 ) || : "${said:=it did not work}"
  if test -z "$said"; then echo yes; else echo no $said; fi
done
"""
DEADLINE_S = 20.0
RESOLVER = "/etc/resolv.conf"
# Reserved for ever, so every name server answers that it does not exist.
NO_NAME = "effectd.invalid."


class Item(NamedTuple):
    """One path and what the handler needs of it."""

    kind: Kind
    path: str
    why: str

    @property
    def what(self) -> str:
        """How a line of the check begins."""
        return "name look-ups" if self.kind == "names" else f"{self.kind} {self.path}"


def items_of(handler: Handler) -> list[Item]:
    """Everything that the handler's start and its manifest name, each path once a kind."""
    manifest = handler.manifest
    found: dict[tuple[Kind, str], Item] = {}

    def add(kind: Kind, path: object, why: str) -> None:
        found.setdefault((kind, str(path)), Item(kind, str(path), why))

    add("run", manifest.command[0], "the command")
    for effect in manifest.effects:
        if effect.reconcile is not None:
            add("run", effect.reconcile.command[0], f"the reconciler of {effect.name}")
    for file in handler.touched:
        kind: Kind = "run" if file.is_file() else "read"
        add(kind, file, "needed to start")
    for file in handler.sources:
        add("read", file, "an artifact")
    declared: tuple[tuple[Kind, tuple[str, ...]], ...] = (
        ("read", manifest.sandbox.read),
        ("write", manifest.sandbox.write),
        ("unix", manifest.sandbox.unix),
    )
    for key, paths in declared:
        for path in paths:
            add(key, path, f"declared in {key}")
    if manifest.sandbox.network == "host":
        add("read", RESOLVER, "names are looked up with it")
        add("names", NO_NAME, "a name server answers")
    return list(found.values())


def try_handler(config: Config, handler: Handler, spec: Spec) -> list[Check]:
    """Build the handler's sandbox and use each path from inside. Starts nothing of the handler.

    What cannot even be put into a sandbox is told first, and the others are tried without it.
    Must be called on the main thread: the launcher dies with the thread that starts it.
    """
    from sandbox.client import Launcher
    from supervisor.cli.rehearsal import run_here

    uid, gid = ids_of(config)
    host = Host(uid, gid)
    items = items_of(handler)
    paths = {one.path for one in items if one.kind != "names"}
    out = {path: said for path in paths if (said := _out_of_reach(path, host)) is not None}
    checks = [_told(one, Said("absent", out[one.path]), host) for one in items if one.path in out]
    launcher = Launcher.start(handler_uid=uid, handler_gid=gid)
    inside = [one for one in items if one.path not in out]
    out |= {path: said for path in spec.closure if (said := _out_of_reach(path, host)) is not None}
    return run_here(_try, launcher, _without(spec, frozenset(out)), inside, host, checks)


def _out_of_reach(path: str, host: Host) -> str | None:
    """Why a path cannot be shown to a handler at all; None when it can."""
    if not host.kind(path):
        return "it is not there"
    blocked = host.blocked(path)
    return None if blocked is None else f"uid {host.uid} cannot pass {blocked}"


def _without(spec: Spec, paths: frozenset[str]) -> Spec:
    """The same sandbox with nothing of these in it."""

    def kept(these: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(path for path in these if path not in paths)

    return attrs.evolve(
        spec,
        read=kept(spec.read),
        write=kept(spec.write),
        unix=kept(spec.unix),
        closure=kept(spec.closure),
    )


async def _try(
    launcher: Launcher, spec: Spec, items: list[Item], host: Host, checks: list[Check]
) -> list[Check]:
    from sandbox.spec import SandboxFault, SandboxUnavailable

    async with trio.open_nursery() as nursery:
        await nursery.start(launcher.run)
        try:
            with trio.fail_after(DEADLINE_S):
                sandbox = await launcher.prepare(spec)
                checks.insert(0, Check("ok", "sandbox", ", ".join(sandbox.layers)))
                checks += await _ask(sandbox, items, host)
        except SandboxUnavailable as error:
            checks.append(Check("wrong", f"sandbox: {error.layer}", error.cause, error.remedy))
        except (SandboxFault, trio.TooSlowError) as error:
            said = str(error) or "it did not answer in time"
            checks.append(Check("wrong", "sandbox", said))
        finally:
            with trio.CancelScope(shield=True):
                await launcher.close()
    return checks


async def _ask(sandbox: Sandbox, items: list[Item], host: Host) -> list[Check]:
    """Run the script in the sandbox and read one line an item."""
    from sandbox.group import end
    from sandbox.spec import DEFAULT_ENVIRONMENT, Command, NotStarted

    words = [f"{item.kind}:{item.path}" for item in items]
    try:
        started = await sandbox.dispatch(
            Command(("/bin/sh", "-c", SCRIPT, "sh", *words), dict(DEFAULT_ENVIRONMENT))
        )
        if isinstance(started, NotStarted):
            return [Check("wrong", "/bin/sh", started.detail, "A sandbox shows /bin and /usr.")]
        said = b""
        while chunk := await sandbox.stdout.receive_some(65_536):
            said += chunk
    finally:
        with trio.CancelScope(shield=True):
            await end(sandbox, grace_ms=0, ask=False)
            await sandbox.discard()
    return list(_read(items, said.decode("utf-8", "replace").splitlines(), host))


def _read(items: list[Item], said: list[str], host: Host) -> Iterator[Check]:
    if len(said) != len(items):
        yield Check("wrong", "sandbox", f"{len(said)} of {len(items)} paths could be looked at")
        return
    for item, line in zip(items, said, strict=True):
        if line == "yes":
            yield Check("ok", item.what, item.why)
        else:
            yield _told(item, Said.of(line.removeprefix("no ")), host)


def _told(item: Item, said: Said, host: Host) -> Check:
    state: Literal["warning", "wrong"] = "warning" if item.kind == "names" else "wrong"
    return Check(
        state, item.what, f"{item.why}: {said.words}", remedy(item.kind, item.path, said, host)
    )
