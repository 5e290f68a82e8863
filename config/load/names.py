"""User and group names to ids, by whatever the host's name service says now."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import attrs

from config.problems import Fault
from config.values import Principal


def resolved(principals: tuple[Principal, ...]) -> tuple[Principal, ...]:
    """The same principals with their ids; an unknown name keeps None."""
    return tuple(attrs.evolve(each, id=id_of(each)) for each in principals)


def id_of(principal: Principal) -> int | None:
    try:
        match principal.kind:
            case "group":
                return grp.getgrnam(principal.name).gr_gid
            case "user":
                return pwd.getpwnam(principal.name).pw_uid
            case "uid" | "gid":
                return principal.id
    except KeyError:
        return None


def unknown_names(key: str, principals: tuple[Principal, ...]) -> Iterator[Fault]:
    """A fault for each principal that nobody on this host is."""
    for index, each in enumerate(principals):
        if each.id is None:
            yield Fault(
                f"{key}[{index}]",
                f"this host knows no {each.kind} {each.name!r}",
                f"create it ({'groupadd' if each.is_group else 'useradd'} --system {each.name})"
                " or correct the name",
            )


def user_ids(name: str) -> tuple[int, int] | None:
    """The uid and primary gid of a user."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return entry.pw_uid, entry.pw_gid


def groups_of(name: str, gid: int) -> frozenset[int]:
    """Every group that a login of this user has."""
    return frozenset(os.getgrouplist(name, gid))


def home_of(uid: int) -> Path | None:
    """The home directory that the user database names."""
    try:
        return Path(pwd.getpwuid(uid).pw_dir)
    except KeyError:
        return None
