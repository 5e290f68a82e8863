"""What an attempt's end was, and what it used, from what init and the kernel counted. No I/O."""

from __future__ import annotations

import signal

from config.manifest import SandboxDecl
from frozen import frozen
from sandbox.cgroups import Used
from sandbox.spec import Ended, Lost
from supervisor.core.record import Outcome, Usage

_SHELL_SAYS = 128
_MS_PER_S = 1_000


@frozen
class Ending:
    """`code` and `detail` are empty for an end that explains itself; `limit` as in `Usage`."""

    outcome: Outcome
    code: str | None = None
    detail: str = ""
    limit: str | None = None


def judge(cause: str, end: Ended, asked: SandboxDecl, used: Used) -> Ending:
    """How it ended. `cause` is what ended it: exit, deadline, limit, shutdown, cancel.

    For `limit` the conversation knows which one.
    """
    match cause:
        case "exit" if end.how == "exited" and end.status == 0:
            return Ending(Outcome.SUCCEEDED)
        case "exit":
            return _failed(end, asked, used)
        case "deadline":
            return Ending(Outcome.TIMED_OUT)
        case "shutdown":
            return Ending(Outcome.CANCELLED, "Draining", "the daemon was stopped while it ran")
        case "limit":
            return Ending(Outcome.FAILED, "LimitExceeded")
        case _:
            return Ending(Outcome.CANCELLED)


def _failed(end: Ended, asked: SandboxDecl, used: Used) -> Ending:
    """Which limit it ran into, if one; the kernel says so by a signal, an event or neither."""
    if used.out_of_memory:
        return _out_of_memory(asked, used)
    number = end.status if end.how == "signaled" else 0
    hint = end.status - _SHELL_SAYS if end.how == "exited" else 0
    if number == signal.SIGXCPU or (number == signal.SIGKILL and _past_cpu(end, asked)):
        return _limit("cpu", _cpu(asked))
    if number == signal.SIGXFSZ:
        return _limit("file_size", _file_size(asked))
    # A shell that goes on after it, or leaves with it: nothing is certain, but it helps to know.
    if hint == signal.SIGXCPU:
        return Ending(Outcome.FAILED, detail=f"exit {end.status} may mean: {_cpu(asked)}")
    if hint == signal.SIGXFSZ:
        return Ending(Outcome.FAILED, detail=f"exit {end.status} may mean: {_file_size(asked)}")
    if used.tasks_refused:
        detail = f"{used.tasks_refused} forks failed at tasks_max = {asked.tasks_max}"
        return Ending(Outcome.FAILED, detail=detail)
    return Ending(Outcome.FAILED)


def _limit(name: str, detail: str) -> Ending:
    return Ending(Outcome.FAILED, "LimitExceeded", f"{name}: {detail}", name)


def _out_of_memory(asked: SandboxDecl, used: Used) -> Ending:
    if used.over_memory_max:
        return _limit("memory", f"it needed more than memory_max = {asked.memory_max} bytes")
    # Nothing that this handler was allowed: what to raise is not its own limit.
    detail = "memory: the kernel ended it because the host, or all handlers together, ran out"
    return Ending(Outcome.FAILED, detail=detail, limit="memory")


def _cpu(asked: SandboxDecl) -> str:
    return f"a process used more than cpu_max_ms = {asked.cpu_max_ms} of processor time"


def _file_size(asked: SandboxDecl) -> str:
    return f"a file was to grow beyond file_size_max = {asked.file_size_max} bytes"


def _past_cpu(end: Ended, asked: SandboxDecl) -> bool:
    """Whether SIGKILL is what follows a SIGXCPU that was ignored, a whole second later.

    The kernel samples time for this limit at its ticks and measures it for `cpu_ms`: where
    processors are shared with other machines, the two are far apart.
    """
    killed_after_ms = (-(-asked.cpu_max_ms // _MS_PER_S) + 1) * _MS_PER_S
    return end.cpu_ms >= killed_after_ms // 2


def killed_with_init(lost: Lost, gate_ns: int, now_ns: int) -> Ended:
    """An end that the kernel made, of the whole tree with its init: nobody saw the status, but
    it can only be SIGKILL. What init would have counted is not known."""
    return Ended("signaled", signal.SIGKILL, 0, None, 0, lost.proof, gate_ns, now_ns)


def usage_of(end: Ended, before_us: int | None, used: Used, limit: str | None) -> Usage:
    """The tree's where its cgroup counted; else what init was told by wait4(2).

    `before_us` is the time that its cgroup had counted when the handler was started: what its
    sandbox's preparation took.
    """
    cpu_ms, cpu_scope = end.cpu_ms, "reaped"
    if used.cpu_us is not None and before_us is not None:
        cpu_ms, cpu_scope = -(-(used.cpu_us - before_us) // _MS_PER_S), "tree"
    peak, memory_scope = used.memory_peak, "tree"
    if peak is None:
        peak, memory_scope = end.rss_peak_bytes or None, "largest_process"
    return Usage(
        cpu_ms=cpu_ms,
        memory_peak_bytes=peak,
        tasks_peak=used.tasks_peak,
        tasks_started=end.tasks_started,
        cpu_scope=cpu_scope,
        memory_scope=memory_scope if peak is not None else None,
        limit=limit,
    )
