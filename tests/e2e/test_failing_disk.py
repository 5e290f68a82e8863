"""A daemon on a disk that really fails: writes that are lost after the cache took them, and a file
system that turns read-only."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support.clients import every
from tests.e2e.support.daemon import Daemon
from tests.e2e.support.journal_files import NEVER, SMALL, at_rest, held, segments, verified
from tests.e2e.support.processes import wait_until
from tests.e2e.support.service import new_service
from tests.filesystems import (
    failing_device,
    fill,
    from_disk,
    loop_device,
    make_read_only,
    missing,
    mount,
    mounted,
    unmount,
)

DOUBTFUL = {"tag": "doubtful", **NEVER}


@contextlib.contextmanager
def daemon_on(device: str, options: str = "") -> Iterator[Daemon]:
    with new_service(tables=SMALL) as daemon:
        daemon.state.mkdir(mode=0o700)
        with mounted(device, daemon.state, "ext4", options):
            daemon.state.chmod(0o700)
            yield daemon.start()
            if daemon.running:
                daemon.kill9()


def poisoned(daemon: Daemon) -> None:
    """Ask what cannot be written down, and see the daemon end as one that does not retry."""
    doubtful = daemon.api.dispatch("never", DOUBTFUL, "doubtful", wait_ms=60_000)
    assert (doubtful.status, doubtful.code) == (503, "AcceptanceUnknown")
    assert doubtful.document["retryable"] is True
    refused = daemon.api.dispatch("plain", {}, "new")
    assert refused.status == 503
    daemon.world.release()
    assert daemon.process is not None
    assert daemon.process.wait(60) == 75
    assert "the journal failed" in daemon.log
    assert "not recorded: a confirmation" in daemon.log
    assert "Traceback" not in daemon.log
    assert daemon.world.arrivals("doubtful made never") == 0


def asked_again(daemon: Daemon) -> None:
    """Who heard nothing certain asks again, and it is done once."""
    sent = daemon.api.dispatch("never", DOUBTFUL, "doubtful", wait_ms=60_000).ok()
    assert sent["state"] == "succeeded"
    assert len(every(daemon.api, "operations", request_id="doubtful")) == 1
    assert daemon.world.arrivals("doubtful made never") == 1
    assert daemon.stop() == 0
    assert verified(daemon) == 0


@pytest.mark.guarantee("J3", "J1")
@pytest.mark.skipif(missing("ext4") is not None, reason=f"{missing('ext4')}")
@pytest.mark.skipif(not shutil.which("nbdkit") or not shutil.which("nbdfuse"), reason="no nbdkit")
def test_what_only_the_cache_has_after_a_failed_write_is_not_believed(tmp_path: Path) -> None:
    with failing_device(tmp_path) as (device, refuse), daemon_on(device) as daemon:
        kept = daemon.api.dispatch("never", {"tag": "kept", **NEVER}, "kept", wait_ms=60_000).ok()
        running = held(daemon, "running")
        wait_until(lambda: at_rest(daemon.api.status()["journal"]), 60, "the journal is at rest")
        refuse.touch()
        poisoned(daemon)
        refuse.unlink()  # from here on the disk takes everything again: a retry would succeed
        (segment,) = segments(daemon)
        assert b"doubtful" in segment.read_bytes(), "the cache shows what was never written"
        assert b"doubtful" not in from_disk(segment)

        daemon.start()
        assert every(daemon.api, "operations", request_id="doubtful") == []
        assert daemon.api.operation(kept["operation_id"])["state"] == "succeeded"
        assert daemon.api.operation(running["operation_id"])["state"] == "unknown"
        asked_again(daemon)


@pytest.mark.guarantee("J3")
@pytest.mark.skipif(missing("ext4") is not None, reason=f"{missing('ext4')}")
def test_a_file_system_that_turns_read_only_ends_the_daemon_until_it_is_mended(
    tmp_path: Path,
) -> None:
    with (
        loop_device(tmp_path / "image", "ext4") as device,
        daemon_on(device, "errors=remount-ro") as daemon,
    ):
        running = held(daemon, "running")
        wait_until(lambda: at_rest(daemon.api.status()["journal"]), 60, "it is at rest")
        make_read_only(device)
        poisoned(daemon)
        failed = daemon.start_another()
        assert failed.returncode == 1
        assert "Read-only file system. Look at the kernel's messages" in failed.stderr
        assert "mount it writable" in failed.stderr
        assert "Traceback" not in failed.stderr
        unmount(daemon.state)
        mount(device, daemon.state, "ext4")
        daemon.start()
        assert daemon.api.operation(running["operation_id"])["state"] == "unknown"
        asked_again(daemon)


@pytest.mark.guarantee("J8")
@pytest.mark.skipif(missing("tmpfs") is not None, reason=f"{missing('tmpfs')}")
def test_a_first_start_on_a_full_disk_says_what_to_do_and_leaves_nothing_half_made() -> None:
    with new_service(tables=SMALL) as daemon:
        daemon.state.mkdir(mode=0o700)
        with mounted("tmpfs", daemon.state, "tmpfs", "size=1m,mode=700"):
            fill(daemon.state / "ballast")
            failed = daemon.start_another()
            assert failed.returncode == 1
            assert "No space left on device. Free space" in failed.stderr
            assert "Traceback" not in failed.stderr
            (daemon.state / "ballast").unlink()
            daemon.start()
            assert daemon.api.dispatch("plain", {}, wait_ms=60_000).ok()["state"] == "succeeded"
            assert daemon.stop() == 0
