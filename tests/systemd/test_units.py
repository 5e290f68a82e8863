"""The unit files: accepted by systemd's own tools, and each line that matters is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "systemd"

# Known from systemd 254 on; before, it warns and goes on.
NEWER = {"RestartSteps", "RestartMaxDelaySec"}


@pytest.fixture
def root() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="efd-"))
    yield path
    shutil.rmtree(path)


def tool(name: str, package: str = "systemd") -> str:
    # apparmor_parser lies where an ordinary user's PATH does not lead.
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        reason = f"{name} is not installed (Debian: {package}), so this cannot be checked"
        if os.getuid() == 0 and os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def settings(name: str) -> dict[tuple[str, str], str]:
    """Read `[Section] Key=value`; no key of ours is repeated."""
    section = ""
    found: dict[tuple[str, str], str] = {}
    for line in (UNITS / name).read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            assert (section, key) not in found, f"{name}: {key} twice"
            found[section, key] = value
    return found


SERVICE = {
    "Type": "notify",
    "NotifyAccess": "main",
    "ExecStart": "/opt/effectd/bin/python -I -m supervisor",
    "ExecReload": "/bin/sh -c '/opt/effectd/bin/python -I -m supervisor --check-config >/dev/null"
    " && exec /bin/kill -HUP $$MAINPID'",
    "User": "effectd",
    "Group": "effectd",
    "AmbientCapabilities": "CAP_SETUID CAP_SETGID",
    "CapabilityBoundingSet": "CAP_SETUID CAP_SETGID",
    "NoNewPrivileges": "yes",
    "SupplementaryGroups": "effectd-run",
    "AppArmorProfile": "-effectd",
    "RemoveIPC": "yes",
    "WatchdogSec": "30",
    "KillMode": "mixed",
    "Restart": "on-failure",
    "RestartForceExitStatus": "75",
    "RestartPreventExitStatus": "78",
    "Delegate": "pids memory cpu",
    "TasksMax": "infinity",
    "OOMPolicy": "continue",
    "OOMScoreAdjust": "-900",
    "LimitNOFILE": "65536",
    "LimitCORE": "1",
    "StateDirectory": "effectd effectd-witness",
    "StateDirectoryMode": "0700",
    "RuntimeDirectory": "effectd-private",
    "ProtectSystem": "full",
    "ProtectHome": "read-only",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "ProtectKernelModules": "yes",
    "ProtectClock": "yes",
    "LockPersonality": "yes",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    "SystemCallArchitectures": "native",
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6 AF_NETLINK",
}

# Each was measured to break a layer of the handlers' sandbox, or their programs.
BREAKING = [
    "RestrictNamespaces",
    "ProtectControlGroups",
    "SystemCallFilter",
    "ProtectKernelTunables",
    "ProtectKernelLogs",
    "ProtectHostname",
    "ProtectProc",
    "ProcSubset",
    "MemoryDenyWriteExecute",
    "PrivateNetwork",
    "PrivateUsers",
    "DynamicUser",
]


@pytest.mark.parametrize(("key", "value"), SERVICE.items(), ids=SERVICE.keys())
def test_the_service_has(key: str, value: str) -> None:
    assert settings("effectd.service")["Service", key] == value


@pytest.mark.parametrize("key", BREAKING)
def test_the_service_leaves_the_sandbox_working_without(key: str) -> None:
    assert ("Service", key) not in settings("effectd.service")


def test_giving_up_takes_thirty_starts_at_the_slowest_pace() -> None:
    """With the longest pause between all of them the starts still fall into the interval."""
    service = settings("effectd.service")
    assert service["Unit", "StartLimitIntervalSec"] == "1h"
    starts = int(service["Unit", "StartLimitBurst"])
    pause_s = int(service["Service", "RestartMaxDelaySec"].removesuffix("s"))
    assert starts * pause_s < 3_600


def test_the_service_is_enabled_beside_its_socket_and_needs_it() -> None:
    service = settings("effectd.service")
    assert service["Unit", "Requires"] == "effectd.socket"
    assert "effectd.socket" in service["Unit", "After"].split()
    assert service["Install", "WantedBy"] == "multi-user.target"
    assert service["Install", "Also"] == "effectd.socket"


@pytest.mark.guarantee("R14")
def test_a_stop_leaves_time_to_drain() -> None:
    drain_seconds = 30  # drain_ms = 30_000, the default
    grace_and_proof_seconds = 10
    stop = int(settings("effectd.service")["Service", "TimeoutStopSec"])
    assert stop >= drain_seconds + grace_and_proof_seconds


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ListenStream", "/run/effectd/effectd.sock"),
        ("SocketMode", "0660"),
        ("SocketGroup", "effectd-clients"),
        ("DirectoryMode", "0755"),
    ],
)
def test_the_socket_has(key: str, value: str) -> None:
    assert settings("effectd.socket")["Socket", key] == value


def test_the_sockets_directory_is_not_the_services() -> None:
    service = settings("effectd.service")
    assert "effectd" not in service["Service", "RuntimeDirectory"].split()


def test_every_unusual_choice_has_its_reason() -> None:
    """A comment stands right above, or above the run of settings it belongs to."""
    lines = (UNITS / "effectd.service").read_text().splitlines()
    for key in ("ExecReload", "AmbientCapabilities", "KillMode", "LimitCORE", "OOMPolicy",
                "RuntimeDirectory", "RestrictAddressFamilies", "WantedBy", "SupplementaryGroups",
                "AppArmorProfile", "StartLimitIntervalSec"):  # fmt: skip
        (at,) = (i for i, line in enumerate(lines) if line.startswith(f"{key}="))
        assert lines[at - 1].startswith("#"), key


def test_systemd_finds_nothing_to_complain_about(root: Path) -> None:
    analyze = tool("systemd-analyze")
    for name in ("effectd.service", "effectd.socket"):
        # The daemon need not be installed where the tests run.
        text = (UNITS / name).read_text().replace("/opt/effectd/bin/python", "/bin/sh")
        (root / name).write_text(text)
    done = subprocess.run(
        [
            analyze,
            "verify",
            "--man=no",
            str(root / "effectd.service"),
            str(root / "effectd.socket"),
        ],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{root}:"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # A host's own units may have faults; they are not ours.
    ours = [line for line in done.stderr.splitlines() if "effectd" in line]
    newer = re.compile(rf"Unknown key (name )?'({'|'.join(NEWER)})' in section")
    assert [line for line in ours if not newer.search(line)] == []
    assert done.returncode == 0


def test_a_typing_error_in_a_unit_would_be_noticed(root: Path) -> None:
    """The check above can fail: the same tool names a key that does not exist."""
    analyze = tool("systemd-analyze")
    text = (UNITS / "effectd.service").read_text().replace("WatchdogSec=", "WatchdogSecs=")
    (root / "effectd.service").write_text(text.replace("/opt/effectd/bin/python", "/bin/sh"))
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(root / "effectd.service")],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{root}:"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "WatchdogSecs" in done.stderr


def test_sysusers_makes_two_users_and_two_groups_that_neither_is_in(root: Path) -> None:
    sysusers = tool("systemd-sysusers")
    (root / "etc").mkdir()
    subprocess.run(
        [sysusers, f"--root={root}", str(UNITS / "effectd.sysusers.conf")],
        capture_output=True,
        timeout=60,
        check=True,
    )
    passwd = [line.split(":") for line in (root / "etc/passwd").read_text().splitlines()]
    group = [line.split(":") for line in (root / "etc/group").read_text().splitlines()]
    users = {entry[0]: entry for entry in passwd}
    assert set(users) == {"effectd", "effectd-run"}
    assert {entry[0] for entry in group} == {
        "effectd",
        "effectd-run",
        "effectd-clients",
        "effectd-admin",
    }
    assert [entry[3] for entry in group] == [""] * 4  # no member by list
    own = {entry[2]: entry[0] for entry in group}
    for name, entry in users.items():
        assert own[entry[3]] == name  # nor by primary group
        assert int(entry[2]) != 0
        assert entry[6] == "/usr/sbin/nologin"
    # Nothing that a handler could leave for the next one, and no directory to protect.
    assert users["effectd-run"][5] == "/nonexistent"


def test_tmpfiles_makes_a_directory_that_clients_can_pass(root: Path) -> None:
    tmpfiles = tool("systemd-tmpfiles")
    if os.getuid() != 0:
        pytest.skip("only root can make a directory that belongs to root")
    # Numbers for the names of the host's database, which --root hides.
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    subprocess.run(
        [tmpfiles, f"--root={root}", "--create", str(UNITS / "effectd.tmpfiles.conf")],
        capture_output=True,
        timeout=60,
        check=True,
    )
    made = (root / "run/effectd").stat()
    assert (made.st_mode & 0o7777, made.st_uid, made.st_gid) == (0o755, 0, 0)


def test_the_apparmor_profile_grants_user_namespaces_to_our_own_interpreter_only() -> None:
    """By path, which is why the environment has a copy of the interpreter."""
    lines = [
        line.strip()
        for line in (UNITS / "effectd.apparmor").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert lines == [
        "abi <abi/4.0>,",
        "include <tunables/global>",
        "profile effectd /opt/effectd/bin/python* flags=(unconfined) {",
        "userns,",
        "include if exists <local/effectd>",
        "}",
    ]
    page = (UNITS.parent / "docs" / "install.md").read_text()
    assert "python3 -m venv --copies /opt/effectd" in page
    assert settings("effectd.service")["Service", "ExecStart"].startswith("/opt/effectd/bin/python")


def test_apparmor_accepts_the_profile() -> None:
    parser = tool("apparmor_parser", "apparmor")
    shown = subprocess.run([parser, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"version (\d+)\.", shown)
    assert version is not None, shown
    if int(version[1]) < 4:
        pytest.skip(f"AppArmor {version[1]} does not know user namespaces, nor restricts them")
    done = subprocess.run(
        [parser, "--skip-kernel-load", "--skip-cache", str(UNITS / "effectd.apparmor")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
