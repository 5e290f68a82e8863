"""Who may do what: roles from uids and groups, and what a denial says.

Pure: names were looked up when the configuration was loaded, and the caller brings the
groups of the peer as they are now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from config.manifest import Manifest
from config.schema import ROLES, Config, Role
from config.values import Principal
from frozen import frozen

NOTHING: frozenset[Role] = frozenset()


@frozen
class Denial:
    """A missing grant: `needs` names it, `fix` is what an admin types."""

    needs: str
    detail: str
    fix: str


def roles(config: Config, uid: int, gids: Collection[int]) -> frozenset[Role]:
    """The roles that a peer holds. Root holds all; the handlers' uid and the daemon's own none,
    whatever is granted to it or its groups; under --dev the daemon's is the developer's."""
    if uid == 0:
        return frozenset(ROLES)
    origin = config.origin
    if uid in {origin.daemon_uid, origin.handler_uid} and not (
        origin.dev and uid == origin.daemon_uid
    ):
        return NOTHING
    if granted(config.access.admin, uid, gids):
        return frozenset(ROLES)
    return frozenset(role for role in ROLES if granted(config.access.granted(role), uid, gids))


def granted(principals: Iterable[Principal], uid: int, gids: Collection[int]) -> bool:
    """Whether one of `principals` is this uid or one of these groups."""
    return any(
        each.id is not None and (each.id in gids if each.is_group else each.id == uid)
        for each in principals
    )


def may_run(
    manifest: Manifest, uid: int, gids: Collection[int], held: frozenset[Role] = NOTHING
) -> bool:
    """Whether the handler's own list admits a peer that holds `run`. The list narrows the
    role and replaces it never; `admin` in `held`, and root, pass it."""
    listed = manifest.access.run
    return not listed or uid == 0 or "admin" in held or granted(listed, uid, gids)


def missing_role(config: Config, role: Role, user: str) -> Denial:
    """What `user` lacks who does not hold `role`."""
    return _denial(
        f"role {role}",
        f"{user} does not hold the role {role}",
        config.access.granted(role),
        user,
        f"add it to access.{role} in the configuration",
    )


def missing_run(manifest: Manifest, user: str) -> Denial:
    """What `user` lacks whom the handler's own list leaves out."""
    return _denial(
        f"handler {manifest.name}",
        f"{user} is not on the list of those who may run {manifest.name}",
        manifest.access.run,
        user,
        f"add it to access.run in {manifest.name}.toml",
    )


def _denial(
    needs: str, detail: str, principals: tuple[Principal, ...], user: str, otherwise: str
) -> Denial:
    groups = [each.name for each in principals if each.kind == "group" and each.id is not None]
    if groups:
        fix = (
            f"as root: usermod -aG {groups[0]} {user}; then log in again and restart the"
            " agent's service"
        )
        return Denial(f"{needs} (group {groups[0]})", detail, fix)
    entry = f'"uid:{user}"' if user.isdecimal() else f'"user:{user}"'
    return Denial(needs, detail, f"as root: {otherwise} ({entry}); then effectctl reload")
