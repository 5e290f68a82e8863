"""A launcher in which python-prctl does what prctl(2) and capset(2) do: only to be measured.

Runs where `sandbox.launcher` does, with ``python -I -S``, and is given the folder of python-prctl
in front of the launcher's own numbers.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from sandbox import launcher, linux, root


def main(folder: str, *numbers: int) -> None:
    """`sandbox.launcher.main`, with another binding under it."""
    sys.path.append(folder)
    prctl: Any = importlib.import_module("prctl")  # python-prctl has no types
    setters: dict[int, Callable[[int], object]] = {
        linux.PR_SET_PDEATHSIG: prctl.set_pdeathsig,
        linux.PR_SET_DUMPABLE: prctl.set_dumpable,
        linux.PR_SET_CHILD_SUBREAPER: prctl.set_child_subreaper,
        linux.PR_SET_NO_NEW_PRIVS: prctl.set_no_new_privs,
    }
    by_ctypes = linux.prctl

    def set_value(option: int, value: int = 0) -> None:
        if option in setters:
            setters[option](value)
        else:
            by_ctypes(option, value)  # the ambient set, which python-prctl does not know

    def limit_capabilities(keep: tuple[int, ...] = ()) -> None:
        set_value(linux.PR_CAP_AMBIENT, linux.PR_CAP_AMBIENT_CLEAR_ALL)
        for kind in (prctl.cap_effective, prctl.cap_permitted, prctl.cap_inheritable):
            kind.limit(*(keep if kind is not prctl.cap_inheritable else ()))

    linux.prctl = set_value
    linux.set_name = lambda name: prctl.set_name(name.decode())
    linux.drop_bounding_set = prctl.capbset.limit
    linux.limit_capabilities = limit_capabilities
    root.STEPS[b"limit_capabilities"] = limit_capabilities
    launcher.main(*numbers)
