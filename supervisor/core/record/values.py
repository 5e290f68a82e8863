"""What records are made of: who, how, what was declared, what came of it."""

from __future__ import annotations

import enum
from typing import Any

from frozen import frozen
from supervisor.core.contract import Contract


class Outcome(enum.Enum):
    """How an attempt was seen to end."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    NOT_STARTED = "not_started"


class Relaunch(enum.Enum):
    """Why an attempt is made."""

    FIRST = "first"
    REPEAT = "repeat"
    FINISH = "finish"
    RETRY = "retry"


class Kind(enum.Enum):
    DISPATCH = "dispatch"
    PROGRAM = "program"
    OPEN = "open"


class Trigger(enum.Enum):
    """What opened a continuation: its message, the agent by itself, or a person."""

    MESSAGE = "message"
    AUTO = "auto"
    MANUAL = "manual"


class Ending(enum.Enum):
    """Why a continuation ended. The last three are nobody's to give."""

    DONE = "done"
    TIME_LIMIT = "time_limit"
    ERROR = "error"
    STOP = "stop"
    CREDENTIAL = "credential"
    RATE_LIMIT = "rate_limit"
    CONTINUED = "continued"
    CANCELLED = "cancelled"
    RESTART = "restart"


class Answer(enum.Enum):
    """How a request for a call of an open operation was answered."""

    FRESH = "fresh"
    RELAUNCHED = "relaunched"
    RESTORED = "restored"
    JOINED = "joined"
    REPLAYED = "replayed"


class Ended(enum.Enum):
    """How a program ended."""

    GAVE = "gave"
    STOPPED = "stopped"
    FAILED = "failed"


class Settler(enum.Enum):
    """Who said what came of an effect."""

    HANDLER = "handler"
    CONTRACT = "contract"
    RECONCILER = "reconciler"
    OPERATOR = "operator"
    SUPERVISOR = "supervisor"


@frozen
class By:
    """Who asked: the peer's uid and pid as the kernel gave them."""

    uid: int
    pid: int


@frozen
class Identity:
    """A sandbox's init as a later boot can recognise it, and never mistake another for it."""

    init_pid: int
    start_time: int
    boot_id: str
    cgroup: str | None = None


@frozen
class Blob:
    """A value in a file of its own: `digest` (SHA-256, hex) of its JSON, and how many bytes that
    has."""

    digest: str
    bytes: int


@frozen
class Result:
    """A value, here or in a blob, or why there is none: too_large, not_json, no_space, expired,
    damaged, missing."""

    value: Any = None
    unavailable: str | None = None
    blob: Blob | None = None

    @property
    def available(self) -> bool:
        return self.unavailable is None


@frozen
class Reconciler:
    """How to ask the provider, as it was declared when the effect was announced."""

    command: tuple[str, ...]
    timeout_ms: int
    settle_ms: int


@frozen
class DeclaredEffect:
    name: str
    contract: Contract
    whole_call: bool = False
    many: bool = False
    key_valid_ms: int = 86_400_000
    reconciler: Reconciler | None = None
    not_applied_exits: tuple[int, ...] = ()
    how_to_check: str = ""


@frozen
class Terms:
    """What a handler's manifest said when its call was accepted. Durations in ms."""

    handler: str
    digest: str
    timeout_ms: int
    grace_ms: int
    read_only: bool
    effects: tuple[DeclaredEffect, ...]
    effects_max: int = 100
    result_max_bytes: int = 1_048_576

    def declared(self, name: str) -> DeclaredEffect | None:
        return next((effect for effect in self.effects if effect.name == name), None)

    @property
    def whole_call(self) -> DeclaredEffect | None:
        return next((effect for effect in self.effects if effect.whole_call), None)

    @property
    def sole_effect(self) -> DeclaredEffect | None:
        """The one effect whose result is the call's, where there is exactly one."""
        if len(self.effects) == 1 and not self.effects[0].many:
            return self.effects[0]
        return None


@frozen
class Exit:
    code: int | None = None
    signal: int | None = None


@frozen
class Usage:
    """What an attempt used, as far as it was counted where it ran."""

    cpu_ms: int | None = None
    memory_peak_bytes: int | None = None
    tasks_peak: int | None = None
    """The most tasks at one time; threads are tasks."""
    tasks_started: int | None = None
    cpu_scope: str | None = None
    """Whose `cpu_ms`: `tree` (all that ran), or `reaped` (all that somebody waited for)."""
    memory_scope: str | None = None
    """Whose `memory_peak_bytes`: `tree` (all together), or `largest_process`."""
    limit: str | None = None
    """Which limit ended it: memory, cpu, file_size, output, effects or faults."""
