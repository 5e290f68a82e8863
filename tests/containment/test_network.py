"""`network = "none"`: nothing outside hears a handler, whatever it speaks.

The listeners decide, not the handler: a datagram is sent without an error into nothing too.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from sandbox.spec import Spec
from tests.containment.support import PYTHON, Found, Held, Programs, as_handler, found
from tests.sandbox.support import launched

NO_FAMILY: Final = "EAFNOSUPPORT"
NO_ROUTE: Final = "ENETUNREACH"
# Each way out, and how it ends. TCP meets a loopback where nobody listens.
WAYS: Final[dict[str, str]] = {
    "tcp": "ECONNREFUSED",
    "tcp6": "ECONNREFUSED",
    "tcp_mapped": "ECONNREFUSED",
    "tcp_fast_open": "ECONNREFUSED EINPROGRESS",
    "multipath_tcp": "EPROTONOSUPPORT",
    "tcp_to_the_world": NO_ROUTE,
    "udp_to_the_world": NO_ROUTE,
    "udp6_to_the_world": NO_ROUTE,
    "multicast": "ENETUNREACH EADDRNOTAVAIL ENODEV",
    "broadcast": NO_ROUTE,
    "ping": "EACCES EPERM ENETUNREACH",
    "raw_ip": "EPERM EACCES EPROTONOSUPPORT",
    "packet": NO_FAMILY,
    "vsock_host": NO_FAMILY,
    "vsock_local": NO_FAMILY,
    "unix_abstract": NO_FAMILY,
    "unix_stream": NO_FAMILY,
    "unix_datagram": NO_FAMILY,
    "pair_sends": "EAFNOSUPPORT EPERM EPROTONOSUPPORT EOPNOTSUPP ESOCKTNOSUPPORT",
    "pair_connects": "EAFNOSUPPORT EPERM EPROTONOSUPPORT EOPNOTSUPP ESOCKTNOSUPPORT",
    "pair_passes_a_descriptor": "EAFNOSUPPORT EPERM EPROTONOSUPPORT EOPNOTSUPP ESOCKTNOSUPPORT",
    "stream_pair_connects": "EISCONN",
    "channel_connects": "EISCONN",
    "channel_is_cut_loose": "EINVAL",
    "pair_listens": "EINVAL",
    "kernel_events": "EAFNOSUPPORT EPROTONOSUPPORT",
    "new_address": "EPERM",
}


class Host:
    """What listens on the host, and whether it heard anything."""

    def __init__(self, folder: Path) -> None:
        self._open = contextlib.ExitStack()
        self._all: dict[str, socket.socket] = {}
        tcp = self._add("tcp", socket.create_server(("127.0.0.1", 0)))
        self.port: int = tcp.getsockname()[1]
        self._add("tcp6", socket.create_server(("::1", self.port), family=socket.AF_INET6))
        for name, family, address in (
            ("udp", socket.AF_INET, "127.0.0.1"),
            ("udp6", socket.AF_INET6, "::1"),
        ):
            self._add(name, socket.socket(family, socket.SOCK_DGRAM)).bind((address, self.port))
        with contextlib.suppress(OSError):  # not every kernel has it
            vsock = self._add("vsock", socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM))
            vsock.bind((socket.VMADDR_CID_ANY, self.port))
            vsock.listen()
        self.abstract = f"effectd-test-{self.port}"
        self.stream, self.datagram = str(folder / "stream"), str(folder / "datagram")
        self._unix("abstract", socket.SOCK_STREAM, "\0" + self.abstract)
        self._unix("stream", socket.SOCK_STREAM, self.stream)
        self._unix("datagram", socket.SOCK_DGRAM, self.datagram)

    def _add(self, name: str, listener: socket.socket) -> socket.socket:
        self._all[name] = self._open.enter_context(listener)
        listener.setblocking(False)
        return listener

    def _unix(self, name: str, kind: int, address: str) -> None:
        listener = self._add(name, socket.socket(socket.AF_UNIX, kind))
        listener.bind(address)
        if not address.startswith("\0"):
            Path(address).chmod(0o777)
        if kind == socket.SOCK_STREAM:
            listener.listen()

    def heard(self) -> set[str]:
        """The names of those with something to accept or to receive."""
        poll = select.poll()
        names = {}
        for name, listener in self._all.items():
            poll.register(listener, select.POLLIN)
            names[listener.fileno()] = name
        return {names[fd] for fd, event in poll.poll(0) if event & select.POLLIN}

    @property
    def words(self) -> tuple[object, ...]:
        """What `programs/network.py` is told."""
        return (self.port, self.abstract, self.stream, self.datagram)

    def close(self) -> None:
        self._open.close()


@pytest.fixture
def host(folder: Path) -> Iterator[Host]:
    made = Host(folder)
    with contextlib.closing(made):
        yield made


@pytest.fixture(scope="module")
def tried(programs: Programs, open_folder: Path) -> Iterator[tuple[Found, set[str]]]:
    """Every way, from a sandbox that sees the directory where the sockets lie."""
    from tests.containment.support import open_directory

    folder = open_directory(open_folder)
    made = Host(folder)
    with contextlib.closing(made):
        argv = programs.python("network", *made.words)
        spec = programs.spec(read=(str(folder),))
        got = trio.run(_found, argv, spec)
        yield got, made.heard()


async def _found(argv: tuple[str, ...], spec: Spec) -> Found:
    async with launched() as launcher:
        return await found(launcher, argv, spec)


@pytest.mark.guarantee("S5")
@pytest.mark.parametrize("way", WAYS)
def test_the_way_leads_nowhere(tried: tuple[Found, set[str]], way: str) -> None:
    assert tried[0][way] in WAYS[way].split()


@pytest.mark.guarantee("S5")
def test_every_way_stands_in_the_table(tried: tuple[Found, set[str]]) -> None:
    assert set(tried[0]) == set(WAYS)


@pytest.mark.guarantee("S5")
def test_nobody_outside_heard_anything(tried: tuple[Found, set[str]]) -> None:
    assert tried[1] == set()


@pytest.mark.guarantee("S5")
async def test_write_access_to_a_directory_makes_its_sockets_no_services(
    programs: Programs, folder: Path, host: Host
) -> None:
    argv = programs.python("network", *host.words)
    got = await _found(argv, programs.spec(write=(str(folder),)))
    assert {way for way in got if got[way] == "open"} == set()
    assert host.heard() == set()


def test_without_a_sandbox_everybody_hears(programs: Programs, host: Host) -> None:
    got = json.loads(as_handler(*programs.python("network", *host.words)).stdout)
    assert {"tcp", "unix_stream", "pair_sends", "unix_abstract"} <= {
        way for way in got if got[way] == "open"
    }
    assert host.heard() >= {"tcp", "tcp6", "udp", "udp6", "abstract", "stream", "datagram"}


@pytest.mark.guarantee("S5")
async def test_with_the_hosts_network_it_is_ip_alone_that_is_open(
    programs: Programs, folder: Path, host: Host
) -> None:
    argv = programs.python("network", *host.words)
    got = await _found(argv, programs.spec(network="host", read=(str(folder),)))
    assert host.heard() == {"tcp", "tcp6", "udp", "udp6"}
    closed = {name for name in WAYS if name.startswith(("unix", "pair", "vsock", "packet"))}
    assert {way for way in closed if got[way] == "open"} == set()


@pytest.mark.guarantee("S5")
@pytest.mark.parametrize("network", ["none", "host"])
async def test_a_declared_socket_is_reached_and_no_other_of_its_kind(
    programs: Programs, folder: Path, host: Host, network: str
) -> None:
    """The declared one is the stream; the datagram one beside it and the abstract one are not.

    With the host's network the abstract names are the host's too: there Landlock keeps them apart.
    """
    argv = programs.python("network", *host.words)
    got = await _found(argv, programs.spec(unix=(host.stream,), network=network))
    assert got["unix_stream"] == "open"
    assert got["unix_abstract"] in {"ECONNREFUSED", "EPERM"}
    assert got["unix_datagram"] == "ENOENT"
    assert got["pair_sends"] != "open"
    assert not host.heard() & {"datagram", "abstract"}
    assert "stream" in host.heard()


@pytest.mark.guarantee("S5")
async def test_loopback_inside_works_and_is_not_shared(programs: Programs) -> None:
    """Two attempts of one handler, at the same time, on the same port."""
    serve = (
        "import json, os, socket\n"
        "one = socket.create_server(('127.0.0.1', 4242))\n"
        "other = socket.create_connection(('127.0.0.1', 4242)); one.accept()\n"
        "udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); udp.bind(('::1', 4242))\n"
        "udp.sendto(b'x', ('::1', 4242)); udp.recv(1)\n"
        "print(json.dumps(socket.if_nameindex()), flush=True)\n"
        "one.settimeout(0); os.read(3, 1)\n"
        "try: one.accept(); heard = True\n"
        "except BlockingIOError: heard = False\n"
        "print(json.dumps(heard), flush=True)\n"
    )
    knock = (
        "import json, socket\n"
        "try: socket.create_connection(('127.0.0.1', 4242), 2); print(json.dumps('heard'))\n"
        "except ConnectionRefusedError: print(json.dumps('refused'))\n"
    )
    argv = (PYTHON, "-I", "-S", "-c", serve)
    spec = programs.spec()
    async with (
        launched() as launcher,
        Held(launcher, argv, spec) as first,
        Held(launcher, argv, spec) as second,
    ):
        assert first.said == second.said == [[1, "lo"]]
        third: Any = await found(launcher, (PYTHON, "-I", "-S", "-c", knock), spec)
        assert third == "refused"
        assert await first.go() is False
        assert await second.go() is False


CLEAN = (
    "import json, os, socket\n"
    "def lines(name):\n"
    "    with open('/proc/net/' + name) as file: return file.read().splitlines()[1:]\n"
    "found = {name: lines(name) for name in ('tcp', 'tcp6', 'udp', 'udp6', 'icmp', 'raw',\n"
    "    'unix', 'route', 'arp', 'packet') if os.path.exists('/proc/net/' + name)}\n"
    "found['netlink'] = sorted(line.split()[1:3] for line in lines('netlink'))\n"
    "found['addresses'] = lines('if_inet6')\n"
    "found['interfaces'] = socket.if_nameindex()\n"
    "found['sysctls'] = {name: open('/proc/sys/net/ipv4/' + name).read() for name in\n"
    "    ('ip_forward', 'ip_local_port_range', 'ping_group_range', 'tcp_fin_timeout')}\n"
    # What of it counts this namespace alone, and at once.
    "with open('/proc/net/sockstat') as file: words = file.read().split()\n"
    "found['sockets'] = [words[words.index(name) + 1] for name in ('inuse', 'tw')]\n"
)
USE = (
    "one = socket.create_server(('127.0.0.1', 4242))\n"
    "for _ in range(5):\n"
    "    ours = socket.create_connection(('127.0.0.1', 4242)); theirs = one.accept()[0]\n"
    "    ours.close(); theirs.close()\n"  # the first to close waits for a minute
    "udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(('127.0.0.1', 4243))\n"
    "udp.sendto(b'left', ('127.0.0.1', 4243))\n"
)


@pytest.mark.guarantee("S5")
async def test_nothing_of_an_attempts_network_is_left_for_the_next(programs: Programs) -> None:
    """Sockets, connections that linger, addresses, routes, settings: all as on the first day."""
    report = "print(json.dumps(found))\n"
    spec = programs.spec()
    async with launched() as launcher:
        first = await found(launcher, (PYTHON, "-I", "-S", "-c", CLEAN + report), spec)
        for n in range(8):
            used = (PYTHON, "-I", "-S", "-c", CLEAN + (USE if n % 2 else "") + report)
            assert await found(launcher, used, spec) == first, n


@pytest.mark.guarantee("S5")
@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
async def test_a_socket_that_an_attempt_gave_away_does_not_reach_the_next_one(
    programs: Programs, folder: Path, kind: str
) -> None:
    """A socket stays in the network it was made in, also in the hands of a service outside. So a
    network in which one is left is not given to another attempt."""
    path = folder / "service"
    gives = (
        "import array, json, socket\n"
        f"one = socket.socket(socket.AF_INET, socket.{kind})\n"
        "there = socket.socket(socket.AF_UNIX)\n"
        f"there.connect({str(path)!r})\n"
        "rights = array.array('i', [one.fileno()])\n"
        "there.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])\n"
        "there.recv(1)\n"
        "print(json.dumps('given'))\n"
    )
    serves = (
        "import json, os, select, socket\n"
        "tcp = socket.create_server(('127.0.0.1', 4244))\n"
        "udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "udp.bind(('127.0.0.1', 4244))\n"
        "print('true', flush=True); os.read(3, 1)\n"
        "print(json.dumps(bool(select.select([tcp, udp], [], [], 0.2)[0])), flush=True)\n"
    )
    spec = programs.spec(unix=(str(path),))
    taken: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as kept:
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen()
        thread = threading.Thread(target=_take, args=(listener, taken))
        thread.start()
        async with launched() as launcher:
            await found(launcher, (PYTHON, "-I", "-S", "-c", gives), spec)
            thread.join()
            (one,) = map(kept.enter_context, taken)
            async with Held(launcher, (PYTHON, "-I", "-S", "-c", serves), spec) as held:
                with contextlib.suppress(OSError):
                    one.connect(("127.0.0.1", 4244))
                    one.send(b"from outside")
                assert await held.go() is False


def _take(listener: socket.socket, taken: list[socket.socket]) -> None:
    there, _ = listener.accept()
    with there:
        _, (fd,), _, _ = socket.recv_fds(there, 1, 1)
        one = socket.socket(fileno=fd)
        one.settimeout(2)
        taken.append(one)
        there.send(b"x")
