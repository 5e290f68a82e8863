"""effectd: the daemon's command line."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from supervisor.version import VERSION

EXIT_FAILED = 1
# sysexits(3): a person has to change something first; another start changes nothing.
EXIT_CONFIG = 78
# By name: --help imports nothing for it.
_LASTING = frozenset({"ConfigError", "JournalTooNew", "JournalRolledBack", "WitnessUnusable"})
_Group = BaseExceptionGroup[BaseException]

_EPILOG = """\
Without --config the file is /etc/effectd/effectd.toml, where there is one. With --dev no
file is read: everything lives below one state directory, and whoever starts it may do all.

exit status: 0 stopped as asked; 1 could not start; 2 usage; 75 the disk failed, restart it;
             78 could not start, and will not before somebody changes something
signals:     SIGTERM and SIGINT stop it after running handlers ended (drain_ms; a second one
             does not wait); SIGHUP reads configuration and manifests again
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="effectd",
        description="Supervises tool handlers, so that no crash repeats or loses an effect.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"effectd {VERSION}")
    made.add_argument("--config", type=Path, metavar="FILE", help="read this configuration file")
    made.add_argument("--dev", action="store_true", help="run as any user, without a file")
    made.add_argument("--state-dir", type=Path, metavar="DIR", help="where the journal is")
    made.add_argument("--handlers-dir", type=Path, metavar="DIR", help="where manifests are")
    made.add_argument("--socket", type=Path, metavar="PATH", help="where clients connect")
    made.add_argument(
        "--check-config", action="store_true", help="check configuration and manifests, then end"
    )
    made.add_argument(
        "--accept-rollback",
        type=_reason,
        metavar="REASON",
        help="go on with a journal older than its witness, and journal why",
    )
    return made


def _reason(text: str) -> str:
    reason = " ".join(text.split())
    if not reason or not reason.isprintable():
        raise argparse.ArgumentTypeError("say in words why the older journal is to be accepted")
    return reason


def main(argv: Sequence[str] | None = None) -> int:
    # Until the journal was replayed: what is loaded and made up to there is never garbage.
    gc.disable()
    try:
        return _main(parser().parse_args(argv))
    finally:
        gc.enable()


def _main(args: argparse.Namespace) -> int:
    # What is needed is imported here and below: then --help costs nothing.
    from config.load import load_config  # noqa: PLC0415
    from config.problems import ConfigError  # noqa: PLC0415

    overrides = {
        key: value
        for key, value in (
            ("state_dir", args.state_dir),
            ("handlers_dir", args.handlers_dir),
            ("socket", args.socket),
        )
        if value is not None
    }
    try:
        config = load_config(args.config, dev=args.dev, overrides=overrides)
        if args.check_config:
            # The daemon needs the first never, and loads the other anyway.
            from config.dump import dump  # noqa: PLC0415
            from supervisor.dispatch import visible  # noqa: PLC0415

            handlers = visible.load(config, strict=True)
            print(dump(config), end="")  # noqa: T201  # what was asked for
            print(f"# {len(handlers)} handlers, all good", file=sys.stderr)  # noqa: T201
            return 0
    except ConfigError as error:
        return _failed(error)
    return _run(config, args.accept_rollback or "")


def _run(config: Any, accept_rollback: str) -> int:
    from config.problems import ConfigError  # noqa: PLC0415
    from sandbox.spec import SandboxFault  # noqa: PLC0415
    from supervisor.journal.errors import JournalError  # noqa: PLC0415
    from supervisor.launching import CannotStart, launched, read_ahead  # noqa: PLC0415

    os.umask(0o077)
    try:
        launcher = launched(config)
        ahead = read_ahead(config)
    except (SandboxFault, CannotStart, JournalError) as error:
        return _failed(error)
    # They get ready while the rest, most of what there is to load, is loaded here.
    from supervisor.daemon import run  # noqa: PLC0415
    from supervisor.server import ListenError  # noqa: PLC0415

    known = (JournalError, ConfigError, SandboxFault, ListenError, CannotStart)
    try:
        return run(config, launcher, ahead, accept_rollback=accept_rollback)
    except known as error:
        return _failed(error)
    except BaseExceptionGroup as caught:
        group: _Group = caught
        # trio wraps what ends a nursery; only what is known to be the surroundings' fault
        # is said in a line, the rest is ours and keeps its traceback.
        halves: tuple[Any, Any] = group.split(known)
        matched, rest = halves
        if rest is not None or matched is None:
            raise
        return _failed(_first(matched))


def _first(error: Any) -> BaseException:
    """The first exception that is no group."""
    inner: Any = getattr(error, "exceptions", None)
    return _first(inner[0]) if inner else error


def _failed(error: BaseException) -> int:
    """Say it in a line, to whoever started it, and which status it deserves."""
    fix = getattr(error, "fix", "")
    text = f"{error}. {fix}" if fix else str(error)
    print(f"effectd: cannot start: {text}", file=sys.stderr)  # noqa: T201  # to whoever started it
    return EXIT_CONFIG if type(error).__name__ in _LASTING else EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
