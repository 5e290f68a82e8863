"""The configuration as the daemon would load it, for commands that need no daemon."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, TypeVar, cast

import click

from supervisor.cli.render_handlers import Check

if TYPE_CHECKING:
    from config.problems import ConfigError, Problem
    from config.schema import Config

P = ParamSpec("P")
R = TypeVar("R")
GIVEN = TypeVar("GIVEN")


class Source:
    """Where the configuration is said: the same three switches that the daemon takes."""

    def __init__(
        self, file: Path | None, *, dev: bool, state_dir: Path | None, handlers_dir: Path | None
    ) -> None:
        self.file, self.dev = file, dev
        self.state_dir, self.handlers_dir = state_dir, handlers_dir

    def load(self) -> Config:
        """The effective configuration. Raises ConfigError with every problem in it."""
        from config.load import load_config

        overrides: dict[str, object] = {}
        if self.state_dir is not None:
            overrides["state_dir"] = self.state_dir
        if self.handlers_dir is not None:
            overrides["handlers_dir"] = self.handlers_dir
        return load_config(self.file, dev=self.dev, overrides=overrides)


def configured(
    function: Callable[Concatenate[GIVEN, Source, P], R],
) -> Callable[Concatenate[GIVEN, P], R]:
    """Give a command --config, --dev, --state-dir and --handlers-dir, as `effectd` has them."""

    @wraps(function)
    def wrapper(given: GIVEN, /, *args: P.args, **kwargs: P.kwargs) -> R:
        source = Source(
            cast("Path | None", kwargs.pop("config_file")),
            dev=bool(kwargs.pop("dev")),
            state_dir=cast("Path | None", kwargs.pop("state_dir")),
            handlers_dir=cast("Path | None", kwargs.pop("handlers_dir")),
        )
        return function(given, source, *args, **kwargs)

    path = click.Path(path_type=Path)
    for decorate in (
        click.option("--handlers-dir", type=path, help="Another manifests directory."),
        click.option("--state-dir", type=path, help="Another state directory."),
        click.option("--dev", is_flag=True, help="With the defaults of `effectd --dev`."),
        click.option("--config", "config_file", type=path, help="The configuration file."),
    ):
        wrapper = decorate(wrapper)
    return wrapper


def problem_checks(error: ConfigError) -> list[Check]:
    """Each problem of a configuration as a check that failed."""
    return [problem_check(problem, "wrong") for problem in error.problems]


def problem_check(problem: Problem, state: Literal["warning", "wrong"]) -> Check:
    """One problem: where, what, and the remedy."""
    where = f"{problem.file}: {problem.key}" if problem.key else problem.file
    return Check(state, where, problem.message, problem.fix)
