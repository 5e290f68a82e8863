"""Entry point of effectctl: runs a command and turns every ending into its exit code."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from supervisor.cli.exits import Exit
from supervisor.cli.look import of_stream, write
from supervisor.cli.talk import CommandError, Problem


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. Nothing escapes but a bug."""
    import click

    from supervisor.cli.app import app
    from supervisor.cli.follow import Interrupted
    from supervisor.cli.output import ReaderLeft
    from supervisor.cli.render_problem import goes_on

    try:
        result = app.main(
            None if arguments is None else list(arguments),
            prog_name="effectctl",
            standalone_mode=False,
        )
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return Exit.USAGE
    except click.ClickException as error:
        error.show()
        return Exit.USAGE
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except ReaderLeft:
        return _reader_left()
    except Interrupted as error:
        write(goes_on(error.operation_id), of_stream(sys.stderr, time.time_ns()), sys.stderr)
        return Exit.INTERRUPTED
    except (Problem, CommandError) as error:
        return _said_no(error)
    except Exception as error:
        code = _no_answer(error)
        if code is None:
            raise
        return code
    return int(result) if isinstance(result, int) else Exit.DONE


def _reader_left() -> int:
    """`effectctl ... | head`: the reader has what it wanted; the interpreter must not complain."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.DONE


def _said_no(error: Problem | CommandError) -> int:
    from supervisor.cli.render_problem import failure, problem

    look = of_stream(sys.stderr, time.time_ns())
    if isinstance(error, CommandError):
        write(failure(str(error), error.fix, look), look, sys.stderr)
    else:
        write(problem(error.document, error.exit_code, look), look, sys.stderr)
    return error.exit_code


def _no_answer(error: Exception) -> int | None:
    """The exit code when there is no answer, or none that is one; None for anything else."""
    from effectd.errors import BadAnswer, EffectdError, Unreachable
    from supervisor.cli.reach import stranger, unreachable

    look = of_stream(sys.stderr, time.time_ns())
    if isinstance(error, Unreachable):
        write(unreachable(error, look), look, sys.stderr)
    elif isinstance(error, BadAnswer):
        write(stranger(error, look), look, sys.stderr)
    elif isinstance(error, EffectdError):
        # What the SDK's streams raise for a refusal.
        document = error.document or {"code": error.code, "detail": error.detail}
        return _said_no(Problem(document))
    else:
        return None
    return Exit.UNREACHABLE


def main() -> None:
    """The `effectctl` program."""
    sys.exit(run())


if __name__ == "__main__":
    main()
