"""Which files may stop answering is told by what is mounted where they lie."""

from __future__ import annotations

import pytest

from supervisor.dispatch import distant

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
23 22 0:21 / /srv/data rw shared:2 - nfs4 server:/data rw
24 23 0:22 / /srv/data/here rw shared:3 - xfs /dev/sdb rw
25 22 0:23 / /srv/two\\040words rw - fuse.sshfs host: rw
26 22 0:24 / /srv/auto rw - autofs systemd-1 rw
27 22 0:25 / /opt rw master:1 - nfs server:/opt rw
28 27 8:2 / /opt rw - ext4 /dev/sdc rw
"""


@pytest.mark.parametrize(
    ("path", "may_hang"),
    [
        ("/usr/bin/python3", False),
        ("/srv/data/run", True),
        ("/srv/data", True),
        ("/srv/database/run", False),
        ("/srv/data/here/run", False),
        ("/srv/two words/run", True),
        ("/srv/auto/x", True),
        # What is mounted over it is what is seen.
        ("/opt/run", False),
    ],
)
def test_the_innermost_mount_counts(tmp_path, monkeypatch, path, may_hang):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    monkeypatch.setattr(distant, "_MOUNTS", mounts)
    monkeypatch.setattr(distant.os.path, "realpath", lambda path: path)
    assert distant.distant([path]) is may_hang
    assert distant.distant(["/etc/hosts", path]) is may_hang


def test_this_host_is_not_distant():
    assert not distant.distant(["/proc/self", "/usr/bin/env", "/dev/null"])
