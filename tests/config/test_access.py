"""Who holds which role, and what a denial tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.access import may_run, missing_role, missing_run, roles
from config.manifest import AccessDecl, Manifest
from config.schema import ROLES, Access, Config, Origin
from config.values import Principal

pytestmark = pytest.mark.guarantee("R12", "S11")

DAEMON, ADMIN, CLIENT, STRANGER = 900, 1_000, 1_001, 1_002
CLIENTS, ADMINS = 50, 51
ACCESS = Access(
    read=(Principal("group", "effectd-admin", ADMINS),),
    run=(Principal("group", "effectd-clients", CLIENTS), Principal("user", "jo", 1_010)),
    resolve=(Principal("group", "effectd-admin", ADMINS),),
    admin=(Principal("uid", "1000", ADMIN), Principal("group", "nobody-has-this-name", None)),
)


def config_of(*, dev: bool = False) -> Config:
    return Config(access=ACCESS, origin=Origin(dev=dev, daemon_uid=DAEMON))


@pytest.mark.parametrize(
    ("uid", "gids", "held"),
    [
        (0, set(), set(ROLES)),
        (DAEMON, {CLIENTS, ADMINS}, set()),
        (ADMIN, set(), set(ROLES)),
        (CLIENT, {CLIENTS}, {"run"}),
        (CLIENT, {CLIENTS, ADMINS}, {"run", "read", "resolve"}),
        (1_010, set(), {"run"}),
        (STRANGER, {1_000, 1_010}, set()),
        (CLIENTS, set(), set()),
        (STRANGER, set(), set()),
    ],
)
def test_roles(uid, gids, held):
    assert roles(config_of(), uid, gids) == held


def test_the_daemons_own_user_holds_what_is_granted_only_to_a_developer():
    assert roles(config_of(), DAEMON, {CLIENTS}) == frozenset()
    assert roles(config_of(dev=True), DAEMON, {CLIENTS}) == {"run"}


def manifest_of(*run: Principal) -> Manifest:
    return Manifest(1, ("/bin/true",), 1, name="charge", access=AccessDecl(run))


BILLING = Principal("group", "billing", 60)


@pytest.mark.parametrize(
    ("listed", "uid", "gids", "held", "admitted"),
    [
        ((), CLIENT, set(), set(), True),
        ((BILLING,), CLIENT, {60}, set(), True),
        ((BILLING,), CLIENT, {61}, {"run"}, False),
        ((BILLING,), CLIENT, set(), {"admin"}, True),
        ((BILLING,), 0, set(), set(), True),
        ((BILLING, Principal("uid", "1001", CLIENT)), CLIENT, set(), set(), True),
        ((Principal("group", "gone", None),), CLIENT, {60}, set(), False),
    ],
)
def test_a_handlers_own_list_narrows(listed, uid, gids, held, admitted):
    assert may_run(manifest_of(*listed), uid, gids, frozenset(held)) is admitted


def test_a_denial_names_the_group_to_join():
    denial = missing_role(config_of(), "run", "jo")
    assert denial.needs == "role run (group effectd-clients)"
    assert denial.detail == "jo does not hold the role run"
    assert denial.fix == (
        "as root: usermod -aG effectd-clients jo; then log in again and restart the agent's service"
    )


def test_a_denial_of_a_role_that_no_group_has_names_the_key():
    denial = missing_role(config_of(), "admin", "jo")
    assert denial.needs == "role admin"
    assert denial.fix == (
        'as root: add it to access.admin in the configuration ("user:jo"); then effectctl reload'
    )
    assert '("uid:1002")' in missing_role(config_of(), "admin", "1002").fix


def test_a_denial_by_a_handlers_list_names_the_handler_and_its_group():
    denial = missing_run(manifest_of(BILLING), "jo")
    assert denial.needs == "handler charge (group billing)"
    assert denial.detail == "jo is not on the list of those who may run charge"
    assert "usermod -aG billing jo" in denial.fix
    assert "access.run in charge.toml" in missing_run(manifest_of(), "jo").fix


def test_the_manifests_list_is_looked_up_when_it_is_loaded(host):
    host.manifest("charge", '[access]\nrun = ["group:daemon", "gid:7", "user:root"]')
    listed = host.load("charge").manifest.access.run
    assert [each.text for each in listed] == ["group:daemon", "gid:7", "user:root"]
    assert [each.id is None for each in listed] == [False, False, False]
    assert (listed[1].id, listed[2].id) == (7, 0)
    assert Path(host.root).exists()
