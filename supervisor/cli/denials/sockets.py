"""The rule for sockets: what a handler wanted to reach, and the key that lets it."""

from __future__ import annotations

import re

from sandbox.filter import JUDGED
from supervisor.cli.denials.lines import Call, text_in
from supervisor.cli.denials.noise import is_noise
from supervisor.cli.denials.values import Denial, Outside, Policy

UNREACHABLE = frozenset({"ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "ENETDOWN"})
NO_FAMILY = frozenset({"EAFNOSUPPORT", "EPERM", "EACCES"})
NO_SOCKET = NO_FAMILY | {"EPROTONOSUPPORT", "ESOCKTNOSUPPORT"}
DOMAIN = 53

_PORT = re.compile(r"sin6?_port=htons\((\d+)\)")
_UNIX_PATH = re.compile(r'sun_path=(@?)("(?:\\x[0-9a-f]{2})*")')
_LATER = re.compile(r"\[(E[A-Z]+)\]")
# More descriptors than that are open at once in nobody's trial.
_KNOWN_MAX = 4_096


class SocketRule:
    """Judges failed calls on sockets for one handler. Remembers what each one was connected to."""

    def __init__(self, policy: Policy, outside: Outside) -> None:
        self._policy, self._outside = policy, outside
        self._peers: dict[str, tuple[str, int]] = {}

    def judge(self, call: Call) -> Denial | None:
        """The denial that a call was, if it was one. Wants the successful ones as well."""
        if call.name in {"socket", "socketpair"}:
            return self._socket(call) if call.error in NO_SOCKET else None
        if "AF_UNIX" in call.word:
            return self._unix(call)
        peer, error = self._peer(call), call.error
        if call.name == "getsockopt" and "SO_ERROR" in call.word:
            later = _LATER.search(call.word)
            error = later.group(1) if later else ""
        if not error or self._policy.network == "host":
            return None
        return self._internet(call.name, peer, error)

    def _socket(self, call: Call) -> Denial | None:
        family = call.arguments[0]
        said = f"{call.name} {family}: {call.error}"
        if call.name == "socketpair":
            why = f"refused in every sandbox: {JUDGED['socketpair']}"
            return Denial("", "", said, why, "A stream pair or a pipe is allowed.")
        if family == "AF_UNIX":
            if self._policy.unix:
                return None
            return Denial("unix", "", said, "this handler declares no Unix socket")
        internet = family in {"AF_INET", "AF_INET6"} and "SOCK_RAW" not in call.word
        routes = family == "AF_NETLINK" and "NETLINK_ROUTE" in call.word
        if call.error in NO_FAMILY and self._policy.network == "none" and (internet or routes):
            return Denial("network", "host", said, "this handler has no network")
        return Denial("", "", said, f"refused in every sandbox: {JUDGED['socket']}")

    def _unix(self, call: Call) -> Denial | None:
        found = _UNIX_PATH.search(call.word)
        if found is None:
            return None
        path = text_in(found.group(2)) or ""
        if call.name == "bind":
            return self._bound(path)
        if not call.error:
            return None
        if is_noise(path):
            return None
        if found.group(1):
            said = f"{call.name} @{path}: {call.error}"
            return Denial("", "", said, "abstract sockets of the host are not reached from inside")
        said = f"{call.name} {path}: {call.error}"
        real = self._outside.real(path)
        if self._outside.kind(real) != "socket":
            return None
        if self._policy.hides(real):
            why = "the daemon's own socket is never reached from inside"
            return Denial("", "", said, why, "What a handler has to say goes over fd 3.")
        if path in self._policy.unix or real in self._policy.unix:
            return self._not_allowed(said, real)
        return Denial("unix", real, said, "something listens there, and it is hidden inside")

    def _bound(self, path: str) -> Denial | None:
        """A socket of the handler's own: only where another one is declared."""
        if self._policy.unix:
            return None
        why = "Unix sockets are refused to a handler that declares none"
        fix = "Within the handler, use a pipe, a stream socketpair or TCP on loopback."
        return Denial("", "", f"bind {path}", why, fix)

    def _not_allowed(self, said: str, path: str) -> Denial | None:
        if self._outside.may(path, "write"):
            return None
        why = "it is declared, and its permissions keep the handler's user out"
        return Denial("", "", said, why, f"Let the handler's user write to {path}.")

    def _peer(self, call: Call) -> tuple[str, int] | None:
        """Whom a call is about: its own address, or what its socket was connected to."""
        key = call.place(0) or call.arguments[0]
        port = _PORT.search(call.word)
        if port is None:
            return self._peers.get(key)
        peer = (_address(call.word), int(port.group(1)))
        if call.name == "connect" and len(self._peers) < _KNOWN_MAX:
            self._peers[key] = peer
        return peer

    def _internet(self, name: str, peer: tuple[str, int] | None, error: str) -> Denial | None:
        if peer is None:
            if error not in UNREACHABLE:
                return None
            return Denial("network", "host", f"{name}: {error}", "this handler has no network")
        address, port = peer
        said = f"{name} {address} port {port}: {error}"
        if port == DOMAIN and error in UNREACHABLE | {"ECONNREFUSED"}:
            return Denial("network", "host", said, "names are looked up over the network")
        if error in UNREACHABLE:
            return Denial("network", "host", said, "this handler has no network")
        if error == "ECONNREFUSED" and self._outside.listens(port):
            why = "something listens there outside; loopback inside is the sandbox's own"
            return Denial("network", "host", said, why)
        return None


def _address(word: str) -> str:
    """The address in a sockaddr: the string that is in it, whichever family."""
    start = max(word.find("inet_addr("), word.find("inet_pton("))
    return (text_in(word[start:]) if start >= 0 else None) or "?"
