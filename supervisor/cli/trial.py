"""A handler tried in the sandbox that it would get: every path it names, from inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

import trio

from supervisor.cli.render_handlers import Check

if TYPE_CHECKING:
    from config.load import Handler
    from config.schema import Config
    from sandbox.client import Launcher, Sandbox
    from sandbox.spec import Spec

Kind = Literal["read", "run", "write", "unix"]

# Asks with access(2), so that nothing is changed outside, and a mount's read-only flag counts.
# One word a path comes back; what is not there at all is told from what is not allowed.
SCRIPT = """
for item do
  path=${item#*:}
  case ${item%%:*} in
    read) test -r "$path" ;;
    run) test -x "$path" ;;
    write) test -w "$path" ;;
    unix) test -S "$path" && test -w "$path" ;;
  esac && echo yes && continue
  test -e "$path" && echo denied || echo absent
done
"""
DEADLINE_S = 10.0
RESOLVER = "/etc/resolv.conf"


class Item(NamedTuple):
    """One path and what the handler needs of it."""

    kind: Kind
    path: str
    why: str


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
    for path in handler.touched:
        add("read", path, "needed to start")
    for path in handler.sources:
        add("read", path, "an artifact")
    for key in ("read", "write", "unix"):
        for path in getattr(manifest.sandbox, key):
            add(key, path, f"declared in {key}")
    if manifest.sandbox.network == "host":
        add("read", RESOLVER, "names are looked up with it")
    return list(found.values())


def try_handler(config: Config, handler: Handler, spec: Spec) -> list[Check]:
    """Build the handler's sandbox and look at each path from inside. Starts nothing of it.

    Must be called on the main thread: the launcher dies with the thread that starts it.
    """
    from sandbox.client import Launcher

    launcher = Launcher.start(
        handler_uid=config.origin.handler_uid, handler_gid=config.origin.handler_gid
    )
    return trio.run(_try, launcher, spec, items_of(handler))


async def _try(launcher: Launcher, spec: Spec, items: list[Item]) -> list[Check]:
    from sandbox.spec import SandboxFault, SandboxUnavailable

    checks: list[Check] = []
    async with trio.open_nursery() as nursery:
        await nursery.start(launcher.run)
        try:
            with trio.fail_after(DEADLINE_S):
                sandbox = await launcher.prepare(spec)
                checks.append(Check("ok", "sandbox", ", ".join(sandbox.layers)))
                checks += await _ask(sandbox, items, launcher.uid)
        except SandboxUnavailable as error:
            checks.append(Check("wrong", f"sandbox: {error.layer}", error.cause, error.remedy))
        except (SandboxFault, trio.TooSlowError) as error:
            said = str(error) or "it did not answer in time"
            checks.append(Check("wrong", "sandbox", said))
        finally:
            with trio.CancelScope(shield=True):
                await launcher.close()
    return checks


async def _ask(sandbox: Sandbox, items: list[Item], uid: int) -> list[Check]:
    """Run the script in the sandbox and read one word an item."""
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
    return list(_read(items, said.decode("ascii", "replace").split(), uid))


def _read(items: list[Item], said: list[str], uid: int) -> Iterator[Check]:
    if len(said) != len(items):
        yield Check("wrong", "sandbox", f"{len(said)} of {len(items)} paths could be looked at")
        return
    for item, word in zip(items, said, strict=True):
        what = f"{item.kind} {item.path}"
        if word == "yes":
            yield Check("ok", what, item.why)
        else:
            yield Check("wrong", what, f"{item.why}: {_WORDS[word]}", remedy(item, word, uid))


_WORDS = {"denied": "it is there, and not allowed", "absent": "it is not there inside"}


def remedy(item: Item, word: str, uid: int) -> str:
    """What to do about a path that cannot be used inside; handlers run as `uid`."""
    if item.kind == "unix":
        return "Start what listens there, and let the handler's user write to the socket."
    if word == "absent":
        return (
            f"Check that it exists and that uid {uid} can reach it: "
            f"sudo -u '#{uid}' ls -ld {item.path}"
        )
    if item.kind == "write":
        return (
            f"chown {uid} {item.path}; or, when the unit protects it, a drop-in:\n"
            f"[Service]\nReadWritePaths={item.path}"
        )
    mode = "+rx" if item.kind == "run" else "+r"
    return f"chmod o{mode} {item.path}, or give it to uid {uid}"
