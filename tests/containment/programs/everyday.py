"""What ordinary Python programs do.  usage: everyday.py NAME; prints `done NAME`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import ctypes
import mmap
import multiprocessing
import multiprocessing.shared_memory
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading


def threads() -> None:
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(lambda n: n * n, range(100))) == 328_350
    event = threading.Event()
    threading.Timer(0.01, event.set).start()
    assert event.wait(10)


def subprocesses() -> None:
    done = subprocess.run(["sh", "-c", "echo out; echo err >&2"], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cat:
        assert cat.communicate(b"x" * 200_000)[0] == b"x" * 200_000
    assert os.system("exit 3") >> 8 == 3
    for start_new_session in (False, True):
        subprocess.run(["true"], check=True, start_new_session=start_new_session, close_fds=True)
    sleeper = subprocess.Popen(["sleep", "60"])
    sleeper.terminate()
    assert sleeper.wait() == -signal.SIGTERM


def _square(n: int) -> int:
    return n * n


def pool() -> None:
    with multiprocessing.Pool(4) as workers:
        assert workers.map(_square, range(20)) == [n * n for n in range(20)]


def _put(queue: object, lock: object, total: object) -> None:
    with lock:
        total.value += 1
    queue.put(os.getpid())


def queues() -> None:
    queue, lock = multiprocessing.Queue(), multiprocessing.Lock()
    total = multiprocessing.Value("i", 0)
    workers = [multiprocessing.Process(target=_put, args=(queue, lock, total)) for _ in range(4)]
    for worker in workers:
        worker.start()
    assert len({queue.get() for _ in workers}) == 4
    for worker in workers:
        worker.join()
    assert total.value == 4


def spawned() -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as workers:
        assert workers.map(_square, [3]) == [9]


def shared_memory() -> None:
    block = multiprocessing.shared_memory.SharedMemory(create=True, size=1 << 20)
    block.buf[:5] = b"hello"
    other = multiprocessing.shared_memory.SharedMemory(name=block.name)
    assert bytes(other.buf[:5]) == b"hello"
    other.close()
    block.close()
    block.unlink()


def event_loop() -> None:
    async def main() -> None:
        process = await asyncio.create_subprocess_exec("echo", "hi", stdout=subprocess.PIPE)
        assert (await process.communicate())[0] == b"hi\n"
        server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(*address)
        assert await reader.read() == b""
        writer.close()
        server.close()
        assert await asyncio.to_thread(_square, 5) == 25
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, lambda: None)
        await loop.getaddrinfo("localhost", 80)

    asyncio.run(main())


def database() -> None:
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(f"{folder}/data.db")
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table t (n)")
        connection.executemany("insert into t values (?)", [(n,) for n in range(1000)])
        connection.commit()
        other = sqlite3.connect(f"{folder}/data.db")
        assert other.execute("select sum(n) from t").fetchone() == (499_500,)
        other.close()
        connection.close()


def files() -> None:
    home = os.path.expanduser("~")
    assert home == os.environ["HOME"] == "/tmp/home"
    for place in (home, "/tmp", "/var/tmp", "/dev/shm", tempfile.gettempdir()):
        with tempfile.NamedTemporaryFile(dir=place) as file:
            file.write(b"x")
    os.makedirs(f"{home}/.config/tool")
    os.symlink(f"{home}/.config", f"{home}/link")
    os.mkfifo(f"{home}/fifo")
    os.rename(f"{home}/.config", f"{home}/.moved")
    with open(f"{home}/mapped", "w+b") as file:
        file.truncate(4096)
        with mmap.mmap(file.fileno(), 4096) as mapped:
            mapped[0] = 1


def sockets() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        socket.create_connection(server.getsockname()[:2]).close()
    assert socket.if_nameindex()
    assert socket.getaddrinfo("localhost", 80)
    ours, theirs = socket.socketpair()
    ours.send(b"x")
    assert theirs.recv(1) == b"x"
    ours.close()
    theirs.close()


def machine_code() -> None:
    """A page that is written, then executed: what every just-in-time compiler does."""
    code = {"x86_64": b"\xb8\x2a\x00\x00\x00\xc3", "aarch64": b"\x40\x05\x80\x52\xc0\x03\x5f\xd6"}
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code[os.uname().machine])
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    assert ctypes.CFUNCTYPE(ctypes.c_int)(address)() == 42


def signals_and_limits() -> None:
    import resource

    hits = []
    signal.signal(signal.SIGALRM, lambda *_: hits.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.sigtimedwait([signal.SIGUSR2], 0.2) if not hits else None
    assert hits
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    os.nice(1)
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    assert os.getloadavg()


def user() -> None:
    import getpass
    import pwd

    assert pwd.getpwuid(os.getuid()).pw_name
    assert getpass.getuser()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("done", sys.argv[1])
