"""In a container whose manager filters system calls: said, with the way out, and never silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.systemd import nspawn, tree
from tests.systemd.machine import Machine

pytestmark = pytest.mark.timeout(600)  # it may make the root directory, and boots it


@pytest.mark.guarantee("S9")
def test_where_the_container_forbids_landlock_it_is_named_and_can_be_done_without(
    service: Machine, built: Path, place: Path
) -> None:
    """nspawn 252 answers EPERM to what its list does not know."""
    root = place / "filtered"
    service.run("systemctl", "stop", "effectd.service")
    tree.copy(built, root)  # with what was installed in it meanwhile
    with nspawn.booted(root, allow="") as container:
        doctor = container.run("effectctl", "doctor", check=False)
        if "✓ landlock" in doctor.out:
            pytest.skip("this version of systemd-nspawn lets Landlock through")
        assert doctor.status == 1
        assert "✗ landlock: missing" in doctor.out
        assert "Operation not permitted" in doctor.out
        assert 'accept_missing = ["landlock"]' in " ".join(doctor.out.split())
        dispatch = ["dispatch", "hello", "--input", "{}"]
        refused = container.run("effectctl", *dispatch, user="ann", check=False)
        assert refused.status == 7
        assert "landlock" in refused.out + refused.err
        container.shell(
            "printf '[sandbox]\\naccept_missing = [\"landlock\"]\\n' >> /etc/effectd/effectd.toml;"
            "systemctl restart effectd.service"
        )
        answer = container.document(*dispatch, user="ann")
        assert answer["state"] == "succeeded"
        (attempt,) = answer["call"]["attempts"]
        assert "landlock" not in attempt["layers"]
        assert "seccomp" in attempt["layers"]
        after = container.run("effectctl", "doctor", check=False)
        assert after.status == 0, after.out
        assert "! landlock: missing" in after.out
