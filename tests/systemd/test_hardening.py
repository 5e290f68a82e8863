"""A unit that is stricter than the one we ship: what still works, and what is said where not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.systemd.handlers.manifests import PLACE
from tests.systemd.machine import Done, Machine

pytestmark = pytest.mark.timeout(600)  # the first one makes and boots the machine

DROP_IN = "/run/systemd/system/effectd.service.d/tried.conf"


@contextlib.contextmanager
def unit_with(machine: Machine, *settings: str) -> Iterator[None]:
    """The service restarted with these settings, and afterwards without them."""
    machine.write(DROP_IN, "\n".join(["[Service]", *settings, ""]))
    try:
        machine.shell("systemctl daemon-reload; systemctl restart effectd.service")
        yield
    finally:
        machine.shell(f"rm {DROP_IN}; systemctl daemon-reload; systemctl restart effectd.service")


def dispatch(machine: Machine, handler: str) -> Done:
    return machine.run("effectctl", "dispatch", handler, "--input", "{}", check=False)


@contextlib.contextmanager
def handler(machine: Machine, name: str, program: str, script: str, sandbox: str) -> Iterator[None]:
    """A handler more; the service has it after its next start."""
    manifest = f"/etc/effectd/handlers.d/{name}.toml"
    machine.write(program, script, 0o755)
    machine.write(
        manifest,
        f'manifest = 1\ncommand = ["{program}"]\ntimeout_ms = 5_000\nread_only = true\n{sandbox}',
    )
    try:
        yield
    finally:
        machine.shell(f"rm {manifest} {program}")


@pytest.mark.parametrize("strictness", ["full", pytest.param("strict", marks=pytest.mark.long)])
def test_a_write_path_that_the_unit_protects_needs_the_drop_in(
    service: Machine, strictness: str
) -> None:
    protect = f"ProtectSystem={strictness}"
    service.shell("install -d -o effectd-run /usr/local/data")
    script = "#!/bin/sh\necho x > /usr/local/data/x\n"
    sandbox = '[sandbox]\nwrite = ["/usr/local/data"]\n'
    with handler(service, "writer", f"{PLACE}/writer.sh", script, sandbox):
        with unit_with(service, protect):
            done = dispatch(service, "writer")
            assert done.status == 1
            assert "Read-only file system" in done.out + done.err
            assert "ReadWritePaths=/usr/local/data" in " ".join((done.out + done.err).split())
        with unit_with(service, protect, "ReadWritePaths=/usr/local/data"):
            assert dispatch(service, "writer").checked()


def test_a_home_that_the_unit_hides_is_named_as_hidden(service: Machine) -> None:
    service.shell("chmod 755 /home/ann")
    script = "#!/bin/sh\necho at home\n"
    with handler(service, "homely", "/home/ann/homely.sh", script, ""):
        with unit_with(service):
            assert "at home" in dispatch(service, "homely").checked()
        for hide in ("ProtectHome=yes", "ProtectHome=tmpfs"):
            with unit_with(service, hide):
                done = dispatch(service, "homely")
                assert done.status == 4
                said = " ".join((done.out + done.err).split())
                assert "is hidden from the service, whose unit has ProtectHome=" in said
                assert "BindReadOnlyPaths=" in said
        with unit_with(service, "ProtectHome=tmpfs", "BindReadOnlyPaths=/home/ann/homely.sh"):
            assert "at home" in dispatch(service, "homely").checked()


# What the unit's last comment says of each, and what doctor makes of it.
BREAKING = [
    ("RestrictNamespaces=yes", "user_namespace"),
    ("SystemCallFilter=@system-service", "landlock"),
    ("ProtectHostname=yes", "uts_namespace"),
]


@pytest.mark.guarantee("S9")
@pytest.mark.parametrize(("setting", "layer"), BREAKING, ids=[each[0] for each in BREAKING])
def test_an_option_that_breaks_the_sandbox_refuses_and_doctor_names_the_layer(
    service: Machine, setting: str, layer: str
) -> None:
    with unit_with(service, setting):
        done = dispatch(service, "hello")
        assert done.status == 7
        assert f"SandboxUnavailable: {layer}" in done.out + done.err
        doctor = service.run("effectctl", "doctor", check=False)
        assert doctor.status == 1
        assert f"✗ {layer}: missing" in doctor.out


@pytest.mark.guarantee("S9")
def test_without_its_cgroup_it_says_so(service: Machine) -> None:
    with unit_with(service, "ProtectControlGroups=yes"):
        dispatch(service, "hello").checked()
        doctor = service.run("effectctl", "doctor", check=False)
        assert "cgroup: missing" in doctor.out


@pytest.mark.parametrize(
    "setting",
    ["MemoryDenyWriteExecute=yes", "IPAddressDeny=any", "RestrictAddressFamilies=AF_UNIX"],
)
def test_an_option_that_only_takes_from_handlers_leaves_the_rest(
    service: Machine, setting: str
) -> None:
    with unit_with(service, setting):
        dispatch(service, "hello").checked()
