"""What a good manifest means: defaults, the effects that count, paths, sizes."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config.convert import structured
from config.manifest import EffectDecl, Manifest, ReconcileDecl, SandboxDecl, TestDecl, completed
from config.problems import Fault, WrongValueError
from config.values import Principal, parse_principal, parse_size

ALL_KEYS = """
manifest = 1
description = "Charge a card"
command = ["/opt/billing/charge.py"]
timeout_ms = 10_000
grace_ms = 2_500
read_only = false
max_running = 4
input_schema = "charge.schema.json"
artifacts = ["/opt/billing/charge.py"]
secrets = ["stripe-key"]
env_from = { STRIPE_KEY = "stripe-key", OTHER = "another" }
env = { LANG = "C.UTF-8" }
[[effect]]
name = "charge"
contract = "idempotency_key"
scope = "announced"
many = false
key_valid_ms = 3_600_000
reconcile = { command = ["/opt/billing/find-charge.py"], timeout_ms = 5_000, settle_ms = 6_000 }
not_applied_exits = []
how_to_check = "the provider's dashboard, search {effect_id}"
[sandbox]
level = "strict"
network = "host"
memory_max = "256M"
file_size_max = "1G"
[output]
result_max_bytes = 1_048_576
output_max_bytes = "64M"
[test]
input = { amount = 1.5, nested = [{}] }
[access]
run = ["gid:0"]
"""


def manifest_of(**keys: object) -> Manifest:
    document = {"manifest": 1, "command": ["/bin/true"], "timeout_ms": 1_000, **keys}
    manifest = structured(document, Manifest)
    assert isinstance(manifest, Manifest), manifest
    return completed(manifest)


def test_every_key_of_the_format_is_read():
    import tomllib

    manifest = structured(tomllib.loads(ALL_KEYS), Manifest)
    assert isinstance(manifest, Manifest)
    assert manifest.effect == (
        EffectDecl(
            name="charge",
            contract="idempotency_key",
            key_valid_ms=3_600_000,
            reconcile=ReconcileDecl(("/opt/billing/find-charge.py",), 5_000, 6_000),
            how_to_check="the provider's dashboard, search {effect_id}",
        ),
    )
    assert manifest.sandbox == SandboxDecl(network="host")
    assert manifest.sandbox.memory_max == 268_435_456
    assert manifest.sandbox.file_size_max == 1_073_741_824
    assert manifest.test == TestDecl(input={"amount": 1.5, "nested": [{}]})
    assert manifest.access.run == (Principal("gid", "0", 0),)
    assert manifest.secret_names == ("another", "stripe-key")
    assert (manifest.grace_ms, manifest.max_running) == (2_500, 4)


@pytest.mark.guarantee("P2")
@pytest.mark.parametrize(
    ("keys", "effects", "eligible"),
    [
        ({}, (EffectDecl("call", "no_safe_retry", "call"),), False),
        ({"read_only": True}, (EffectDecl("call", "none", "call"),), True),
        ({"effect": [{"name": "a", "contract": "none"}]}, (EffectDecl("a", "none"),), True),
        (
            {"effect": [{"name": "a", "contract": "no_safe_retry"}]},
            (EffectDecl("a", "no_safe_retry"),),
            True,
        ),
        (
            {"read_only": True, "effect": [{"name": "a", "contract": "none"}]},
            (EffectDecl("a", "none"),),
            True,
        ),
    ],
)
def test_a_handler_that_declares_nothing_is_one_effect_of_the_whole_call(keys, effects, eligible):
    manifest = manifest_of(**keys)
    assert manifest.effects == effects
    assert manifest.eligible_for_resume is eligible
    assert manifest.whole_call is (effects[0].scope == "call")
    assert manifest.effect_named(effects[0].name) == effects[0]
    assert manifest.effect_named("other") is None


@pytest.mark.guarantee("E12")
def test_a_key_is_trusted_for_a_day_unless_the_manifest_says_otherwise():
    effects = manifest_of(
        effect=[
            {"name": "a", "contract": "idempotency_key"},
            {"name": "b", "contract": "idempotency_key", "key_valid_ms": 7_000},
            {"name": "c", "contract": "reconciliation"},
        ]
    ).effects
    assert [each.key_valid_ms for each in effects] == [86_400_000, 7_000, None]


def test_doubtful_manifests_load_with_a_warning(host):
    host.manifest(
        "charge",
        '[[effect]]\nname = "a"\ncontract = "reconciliation"\n'
        '[[effect]]\nname = "b"\ncontract = "none"\nreconcile = { command = ["/bin/true"] }\n'
        '[[effect]]\nname = "c"\ncontract = "idempotency_key"\nkey_valid_ms = 3_000\n',
    )
    assert [(each.key, each.message[:40]) for each in host.load("charge").warnings] == [
        ("effect[0]", "without a reconciler an unknown outcome "),
        ("effect[1].reconcile", 'contract "none" repeats an unknown effec'),
        ("effect[2].key_valid_ms", "a retry must end while the key is valid,"),
    ]


def test_paths_are_relative_to_where_the_manifest_really_is(host):
    away = host.root / "billing"
    (away / "bin").mkdir(parents=True)
    program = away / "bin" / "charge"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (away / "in.json").write_text('{"type": "object"}')
    (away / "charge.toml").write_text(
        'manifest = 1\ncommand = ["./bin/charge", "-x"]\ntimeout_ms = 1\n'
        'input_schema = "in.json"\nartifacts = ["../billing/in.json"]\n'
        '[sandbox]\nread = ["data"]\nwrite = ["../out"]\n'
    )
    (host.manifests / "charge.toml").symlink_to(away / "charge.toml")
    handler = host.load_all()["charge"]
    assert handler.manifest.command == (str(program), "-x")
    assert handler.manifest.sandbox.read == (str(away / "data"),)
    assert handler.manifest.sandbox.write == (str(host.root / "out"),)
    assert handler.manifest.artifacts == (str(away / "in.json"),)
    assert handler.input_schema == {"type": "object"}
    assert set(handler.artifacts) == {str(program), str(away / "in.json")}


def test_sandbox_defaults_come_from_the_configuration_and_change_no_digest(host):
    host.manifest("quiet")
    host.manifest("loud", '[sandbox]\naccept_missing = ["memory"]')
    before = host.load_all()
    defaults = attrs.evolve(host.config.sandbox, accept_missing=("landlock",))
    changed = attrs.evolve(host, config=attrs.evolve(host.config, sandbox=defaults)).load_all()
    assert changed["quiet"].manifest.sandbox.accept_missing == ("landlock",)
    assert changed["loud"].manifest.sandbox.accept_missing == ("memory",)
    assert changed["quiet"].digest == before["quiet"].digest


@pytest.mark.parametrize(
    ("said", "size"),
    [
        (0, 0),
        (7, 7),
        ("1K", 1_024),
        ("256M", 268_435_456),
        ("1G", 1_073_741_824),
        ("2T", 2_199_023_255_552),
    ],
)
def test_sizes(said, size):
    assert parse_size(said) == size


@pytest.mark.parametrize(
    "said", ["", "M", "1", "1MB", "1 M", "1.5G", "-1M", "1m", True, 1.0, None, "\u0661M", "1M\n"]
)
def test_what_is_no_size(said):
    with pytest.raises(WrongValueError, match="expected a size"):
        parse_size(said)


@pytest.mark.parametrize(
    ("text", "principal"),
    [
        ("group:billing", Principal("group", "billing")),
        ("user:jo.doe@corp", Principal("user", "jo.doe@corp")),
        ("uid:0", Principal("uid", "0", 0)),
        ("gid:4294967294", Principal("gid", "4294967294", 4_294_967_294)),
    ],
)
def test_principals(text, principal):
    assert parse_principal(text) == principal
    assert principal.text == text


@pytest.mark.parametrize(
    "text",
    ["", "billing", "group:", "uid:", "uid:-1", "uid:01", "uid:4294967295", "gid:x", "Group:a",
     "group:a b", "user:a\n", "role:x", "uid:٣"],
)  # fmt: skip
def test_what_is_no_principal(text):
    with pytest.raises(WrongValueError, match="names no user or group"):
        parse_principal(text)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([each.name for each in attrs.fields(Manifest)]) | st.text(max_size=4),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


# A busy machine draws slowly and is no fault of the test.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from([each.name for each in attrs.fields(Manifest)]) | st.text(max_size=4),
        PLAIN,
        max_size=6,
    )
)
def test_whatever_is_written_becomes_a_manifest_or_faults_and_never_an_exception(document):
    read = structured(document, Manifest)
    if isinstance(read, Manifest):
        assert read.timeout_ms > 0
        assert type(read.timeout_ms) is int
    else:
        assert read
        assert all(isinstance(fault, Fault) and fault.message and fault.fix for fault in read)


def test_absolute_paths_lose_their_detours():
    from config.schema import Config

    config = structured({"state_dir": "//srv/./a/../b//"}, Config)
    assert isinstance(config, Config)
    assert config.state_dir == Path("/srv/b")
