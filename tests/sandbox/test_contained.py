"""Every tree is held together by a pid namespace or by a cgroup: without either nothing could kill
it for certain, and nobody could ever prove it dead."""

from __future__ import annotations

import itertools

import pytest

from sandbox import remedies, wire
from sandbox.spec import LAYERS, SandboxUnavailable, Spec
from tests.sandbox.support import launched

KINDS = [
    Spec(level=level, trusted=trusted, accept_missing=accepted)
    for level, trusted, accepted in itertools.product(
        ("strict", "none"),
        (False, True),
        ((), ("user_namespace",), ("pid_namespace",), ("cgroup",), LAYERS),
    )
]


@pytest.mark.guarantee("E10", "S2")
@pytest.mark.parametrize("has_cgroup", [False, True])
@pytest.mark.parametrize("spec", KINDS, ids=lambda spec: f"{spec.level} {spec.trusted}")
def test_whatever_may_be_missing_something_holds_the_tree_together(
    spec: Spec, has_cgroup: bool
) -> None:
    try:
        by = remedies.containment(spec, has_cgroup=has_cgroup)
    except SandboxUnavailable as refused:
        assert spec.level == "none"
        assert refused.remedy
    else:
        assert by == wire.BY_NAMESPACE or has_cgroup


@pytest.mark.guarantee("E10", "S2")
async def test_without_a_cgroup_no_pid_namespace_means_no_sandbox() -> None:
    async with launched() as launcher:
        with pytest.raises(SandboxUnavailable, match="ends its tree by a cgroup alone"):
            await launcher.prepare(Spec(level="none", trusted=True))
        # All that may be missing is missing only where it cannot be had.
        sandbox = await launcher.prepare(Spec(accept_missing=LAYERS))
        assert "pid_namespace" in sandbox.layers
        await sandbox.discard()
