"""Start a program with fd 3 connected, and answer it line by line until it has ended."""

from __future__ import annotations

import json
import os
import secrets
import selectors
import signal
import socket
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Any, Callable, Optional

_PIECE = 65_536
_TICK_SECONDS = 0.02


@dataclass(frozen=True)
class Answer:
    """What the daemon's half does about one message of the handler's."""

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    data: bytes = b""


@contextmanager
def started(
    command: list[str], value: object, env: Mapping[str, str]
) -> Generator[Process, None, None]:
    """The handler with its input on stdin and fd 3 connected; dead and gone afterwards."""
    with ExitStack() as stack:
        stdin, stdout, stderr = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        stdin.write(json.dumps(value).encode())
        stdin.seek(0)
        ours, theirs = socket.socketpair()
        stack.callback(ours.close)
        with theirs:
            numbers = {
                0: stdin.fileno(),
                1: stdout.fileno(),
                2: stderr.fileno(),
                3: theirs.fileno(),
            }
            pid = _spawn(command, _environment(env), numbers)
        process = Process(pid, ours, stdout, stderr)
        stack.callback(process.kill)
        yield process


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "EFFECTD_FD": "3",
        "EFFECTD_PROTOCOL": "1",
        "EFFECTD_OPERATION_ID": "op_" + secrets.token_hex(10),
        "EFFECTD_CALL_ID": "call_" + secrets.token_hex(10),
        "EFFECTD_ATTEMPT": "0",
        **env,
    }


def _spawn(command: list[str], env: dict[str, str], numbers: Mapping[int, int]) -> int:
    # posix_spawn, because fd 3 has to be fd 3: subprocess passes descriptors under their own
    # numbers only, and its preexec_fn may land on the pipe that reports a failed exec.
    # Python ignores SIGPIPE, and an ignored signal stays ignored in what is started.
    actions = [(os.POSIX_SPAWN_DUP2, have, want) for want, have in numbers.items()]
    return os.posix_spawnp(
        command[0], command, env, file_actions=actions, setpgroup=0, setsigdef=[signal.SIGPIPE]
    )


class Process:
    """One started handler, in a process group of its own."""

    def __init__(self, pid: int, sock: socket.socket, stdout: IO[bytes], stderr: IO[bytes]) -> None:
        self._pid = pid
        self._sock = sock
        self._files = (stdout, stderr)
        self._status: Optional[int] = None
        self._buffer = bytearray()
        self._open = True

    def talk(self, answer: Callable[[bytes], Answer], deadline: float) -> tuple[int, bool]:
        """Answer until it ends. Its exit status, and whether the deadline ended it."""
        late = False
        with selectors.DefaultSelector() as selector:
            selector.register(self._sock, selectors.EVENT_READ)
            while self._status is None:
                late = time.monotonic() > deadline
                if late:
                    self.kill()
                elif not self._open:
                    time.sleep(_TICK_SECONDS)
                elif selector.select(_TICK_SECONDS):
                    self._read(answer, selector)
                    continue
                self._end()
        self._drain(answer)
        return self._status, late

    def _read(self, answer: Callable[[bytes], Answer], selector: selectors.BaseSelector) -> None:
        try:
            data = self._sock.recv(_PIECE)
        except ConnectionResetError:
            data = b""
        if not data:
            selector.unregister(self._sock)
            self._open = False
        self._take(answer, data)

    def _drain(self, answer: Callable[[bytes], Answer]) -> None:
        """What it said before it ended counts."""
        self._sock.setblocking(False)
        while self._open:
            try:
                data = self._sock.recv(_PIECE)
            except OSError:
                return
            if not data:
                return
            self._take(answer, data)

    def _take(self, answer: Callable[[bytes], Answer], data: bytes) -> None:
        self._buffer += data
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer[:] = rest
        for line in lines:
            reply = answer(line)
            if reply.kind == "kill":
                self.kill()
            elif reply.kind == "hang_up":
                self._sock.shutdown(socket.SHUT_RDWR)
            elif reply.data:
                self._answer(reply.data)

    def _answer(self, data: bytes) -> None:
        try:
            self._sock.sendall(data)
        except OSError:
            self._open = False

    def _end(self) -> None:
        """Notice that the leader has ended, and take the rest of its group with it."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        if self._status is None and os.waitid(os.P_PID, self._pid, options) is not None:
            self.kill()

    def kill(self) -> None:
        """End the whole group. The leader is reaped last: until then the group's number is ours."""
        if self._status is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        self._status = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)

    def output(self) -> str:
        return _text(self._files[0])

    def errors(self) -> str:
        return _text(self._files[1])


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")
