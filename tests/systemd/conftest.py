"""A machine with effectd installed as docs/install.md says: one for all tests that need it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.systemd import instructions, nspawn, tree, vm, wheels
from tests.systemd.handlers.manifests import MANIFESTS, PLACE, PROGRAMS
from tests.systemd.machine import Machine
from tests.systemd.support import knows

HERE = Path(__file__).parent
TOOLS = ("mmdebstrap", "nsenter", "setpriv", "systemd-nspawn", "unshare")
CONFIG = """\
# So that the tests of a stop need not wait half a minute.
drain_ms = 1_000
"""


def missing() -> str:
    """Why no machine can be booted here; nothing when one can."""
    if os.getuid() != 0:
        return "only root can boot a container"
    absent = [name for name in TOOLS if shutil.which(name) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (Debian: mmdebstrap systemd-container)"
    if sys.version_info[:2] != tree.PYTHON:
        wanted = ".".join(map(str, tree.PYTHON))
        return f"Debian {tree.SUITE} has Python {wanted}, for which this one builds no wheels"
    return ""


def unavailable(reason: str) -> None:
    """Skip, or fail where this must not be skipped."""
    if os.environ.get("CI") and os.getuid() == 0:
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="effectd-machine-", dir="/var/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def built(place: Path) -> Path:
    """A Debian root directory with the wheels and the units of this checkout in /root/effectd."""
    if reason := missing():
        unavailable(reason)
    return checkout_in(debian(tree.PACKAGES), place / "debian")


def debian(packages: Sequence[str], hooks: Sequence[str] = ()) -> Path:
    try:
        return tree.debian(packages=packages, hooks=hooks)
    except RuntimeError as error:
        unavailable(str(error))
        raise


def checkout_in(original: Path, root: Path) -> Path:
    tree.copy(original, root)
    source = root / "root" / "effectd"
    wheels.build(source / "wheels")
    shutil.copytree(HERE.parents[1] / "systemd", source / "systemd")
    return root


@pytest.fixture(scope="session")
def virtual(place: Path) -> Iterator[Machine]:
    """A virtual machine in which effectd was installed beforehand, by the same commands."""
    if reason := missing() or vm.missing():
        unavailable(reason)
    root = checkout_in(debian(vm.PACKAGES, (vm.HOOK,)), place / "virtual")
    # Faster in a container, where nothing is emulated.
    with nspawn.booted(root) as container:
        install(container)
    vm.prepare(root)
    with vm.booted(root) as machine:
        yield machine


@pytest.fixture(scope="session")
def machine(built: Path) -> Iterator[Machine]:
    """Booted, effectd installed, `ann` in the clients' group and `bob` in none."""
    with nspawn.booted(built) as container:
        install(container)
        yield container


def install(machine: Machine) -> None:
    machine.write("/etc/effectd/effectd.toml", CONFIG)
    machine.shell(f"cd /root/effectd\n{instructions.commands('install')}", timeout_s=300)
    machine.shell("useradd -m -G effectd-clients ann; useradd -m bob")
    machine.shell("install -d -o effectd-run -g effectd-run /srv/provider")
    for program in PROGRAMS:
        machine.write(f"{PLACE}/{program}", (HERE / "handlers" / program).read_text(), 0o755)
    for name, text in MANIFESTS.items():
        machine.write(f"/etc/effectd/handlers.d/{name}.toml", text)
    machine.shell(instructions.commands("first-handler"))
    machine.until(lambda: knows(machine, "hello"), "the reload is done")


@pytest.fixture
def service(machine: Machine) -> Machine:
    """The machine with the service running and nothing in it that fails or still runs."""
    machine.shell("systemctl reset-failed; systemctl start effectd.socket effectd.service")
    return machine
