"""Run one function of a file as a handler: `python -m effectd._run_function FILE NAME`."""

from __future__ import annotations

import importlib.util
import sys

from effectd.handler import run


def main() -> None:
    """Import the file under a name of its own, so that nothing in it takes it for the program."""
    path, name = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("effectd_handler_under_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    run(getattr(module, name))


main()
