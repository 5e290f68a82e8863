"""The handler's half of protocol 1, with real programs at the other end of a socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time

import pytest

from effectd import testing
from effectd.handler import handler
from effectd.testing import applied, hang_up, leave, raw, refused, run_handler, silence
from sdk.tests.pay import pay

PRELUDE = """
import json, os, sys, threading
from effectd.handler import handler, run, NotApplied, Refused, ProtocolError
"""


@pytest.fixture
def program(directory):
    """Write a program and run it as a handler."""

    def make(text, value=None, **kwargs):
        path = directory / "handler.py"
        path.write_text(PRELUDE + textwrap.dedent(text))
        return run_handler(path, value, **kwargs)

    return make


CHARGE = """
@handler
def charge(input, effects):
    def make(effect):
        print("made", effect.name, effect.ordinal, effect.effect_id == effect.idempotency_key)
        return {"id": "ch_1"}
    return effects.perform("charge", input, make)
"""


def types(talk):
    return [message["type"] for message in talk.sent]


# --- conversations -------------------------------------------------------------------------


@pytest.mark.guarantee("E1", "E3")
def test_an_effect_is_announced_made_with_leave_confirmed_and_its_result_returned(program):
    talk = program(CHARGE, {"amount": 1})
    assert talk.sent == [
        {"type": "announce", "effect": "charge", "request": {"amount": 1}},
        {"type": "confirm", "ordinal": 0, "outcome": "applied", "result": {"id": "ch_1"}},
        {"type": "result", "value": {"id": "ch_1"}},
    ]
    assert (talk.exit_status, talk.stderr, talk.problems) == (0, "", [])
    assert talk.stdout == "made charge 0 True\n"


@pytest.mark.guarantee("E4")
def test_an_effect_that_was_applied_before_is_not_made_and_its_result_is_returned(program):
    talk = program(CHARGE, {"amount": 1}, answers=[applied({"id": "ch_0"})])
    assert types(talk) == ["announce", "result"]
    assert (talk.result, talk.stdout, talk.exit_status) == ({"id": "ch_0"}, "", 0)


def test_applied_without_a_result_returns_none_and_makes_nothing(program):
    bare = raw(b'{"type":"applied","ordinal":0}\n')
    talk = program(CHARGE, {}, answers=[bare])
    assert (talk.result, talk.stdout) == (None, "")


def test_a_refused_effect_is_not_made_and_raises_its_code(program):
    talk = program(CHARGE, {}, answers=[refused("UndeclaredEffect", "charge is not declared")])
    assert types(talk) == ["announce"]
    assert (talk.stdout, talk.exit_status) == ("", 1)
    assert "UndeclaredEffect" in talk.stderr
    assert "charge is not declared" in talk.stderr


def test_a_refusal_can_be_handled(program):
    talk = program(
        """
        @handler
        def f(input, effects):
            try:
                effects.perform("a", 1, lambda effect: print("made"))
            except Refused as no:
                effects.perform("b", 2, lambda effect: None)
                return no.code
        """,
        answers=[refused("UndeclaredEffect")],
    )
    assert talk.result == "UndeclaredEffect"
    assert types(talk) == ["announce", "announce", "confirm", "result"]


def test_not_applied_is_confirmed_with_its_reason_and_raised_again(program):
    talk = program(
        """
        @handler
        def f(input, effects):
            def make(effect):
                raise NotApplied("card declined")
            try:
                effects.perform("charge", {}, make)
            except NotApplied as known:
                return {"declined": str(known)}
        """
    )
    assert talk.sent[1] == {
        "type": "confirm",
        "ordinal": 0,
        "outcome": "not_applied",
        "reason": "card declined",
    }
    assert talk.result == {"declined": "card declined"}
    assert talk.unknown == []


def test_not_applied_that_nobody_catches_ends_the_handler(program):
    talk = program(
        """
        @handler
        def f(input, effects):
            def make(effect):
                raise NotApplied("card declined")
            effects.perform("charge", {}, make)
        """
    )
    assert types(talk) == ["announce", "confirm"]
    assert talk.exit_status == 1
    assert "card declined" in talk.stderr


@pytest.mark.guarantee("E6")
@pytest.mark.parametrize(
    "statement",
    ["raise TimeoutError('slow')", "sys.exit(0)", "os._exit(0)", "os.kill(os.getpid(), 9)"],
)
def test_whatever_else_ends_make_confirms_nothing(program, statement):
    talk = program(
        f"""
        @handler
        def f(input, effects):
            def make(effect):
                {statement}
            effects.perform("charge", {{}}, make)
        """
    )
    assert types(talk) == ["announce"]
    assert [one.effect for one in talk.unknown] == ["charge"]


def test_a_caught_exception_of_make_still_leaves_its_effect_unknown(program):
    talk = program(
        """
        @handler
        def f(input, effects):
            for number in range(2):
                try:
                    effects.perform("charge", number, lambda effect: 1 / 0)
                except ZeroDivisionError:
                    pass
            return "done"
        """
    )
    assert types(talk) == ["announce", "announce", "result"]
    assert len(talk.unknown) == 2


def test_a_result_that_is_not_json_is_applied_first_and_complained_about_then(program):
    talk = program(
        """
        @handler
        def f(input, effects):
            return effects.perform("charge", {}, lambda effect: object())
        """
    )
    assert talk.sent[1:] == [{"type": "confirm", "ordinal": 0, "outcome": "applied"}]
    assert talk.exit_status == 1
    assert "effect 'charge' was applied, and its result is not JSON" in talk.stderr
    assert talk.stderr.strip().splitlines()[-1].startswith("TypeError")


@pytest.mark.parametrize("value", ["float('nan')", "'\\ud800'"])
def test_a_request_that_json_cannot_carry_is_not_announced(program, value):
    talk = program(f"@handler\ndef f(input, effects):\n    effects.perform('a', {value}, print)\n")
    assert (types(talk), talk.exit_status) == ([], 1)
    assert "the request is not JSON" in talk.stderr


@pytest.mark.parametrize("value", ["{(1,): 2}", "[float('inf')]"])
def test_a_result_that_json_cannot_carry_is_not_sent(program, value):
    talk = program(f"@handler\ndef f(input, effects):\n    return {value}\n")
    assert (types(talk), talk.exit_status) == ([], 1)
    assert "the handler's result is not JSON" in talk.stderr


def test_an_announcement_that_is_too_long_is_not_sent(program):
    talk = program(
        """
        @handler
        def f(input, effects):
            effects.perform("a", "x" * 65_536, print)
        """
    )
    assert talk.sent == []
    assert "65536" in talk.stderr
    assert talk.stderr.strip().splitlines()[-1].startswith("ValueError")


def test_effects_have_their_ordinals_in_the_order_of_their_announcements(program):
    talk = program(
        """
        @handler
        def f(input, effects):
            inner = lambda effect: effects.perform("b", 2, lambda e: e.ordinal)
            return [effects.perform("a", 1, inner), effects.perform("c", 3, lambda e: e.ordinal)]
        """
    )
    assert talk.result == [1, 2]
    confirmed = [one["ordinal"] for one in talk.sent if one["type"] == "confirm"]
    assert confirmed == [1, 0, 2]


def test_progress_is_bounded_and_never_fails(program):
    talk = program(
        """
        @handler
        def f(input, effects):
            effects.progress(0.5, "half")
            effects.progress(7, "x" * 100_000)
            effects.progress(-1, "\\ud800")
        """
    )
    first, second, third = talk.progress
    assert first == {"type": "progress", "fraction": 0.5, "message": "half"}
    assert (second["fraction"], len(second["message"])) == (1.0, 1_000)
    assert (third["fraction"], third["message"]) == (0.0, "?")
    assert talk.exit_status == 0


@pytest.mark.parametrize("value", ["None", "{'a': ['ä\\n', 0]}"])
def test_the_functions_value_is_the_result_whatever_stdout_says(program, value):
    talk = program(f"@handler\ndef f(input, effects):\n    print('[1]')\n    return {value}\n")
    assert talk.sent == [{"type": "result", "value": eval(value)}]
    assert talk.exit_status == 0


def test_an_exception_is_a_traceback_on_stderr_and_exit_1(program):
    talk = program("@handler\ndef f(input, effects):\n    raise RuntimeError('boom')\n")
    assert (talk.sent, talk.exit_status) == ([], 1)
    assert "line 6, in f" in talk.stderr
    assert talk.stderr.endswith("RuntimeError: boom\n")


def test_an_exit_status_of_the_functions_own_is_kept_and_no_result_is_sent(program):
    talk = program("@handler\ndef f(input, effects):\n    sys.exit(9)\n")
    assert (talk.sent, talk.exit_status) == ([], 9)


def test_a_handler_knows_what_it_works_for(program):
    talk = program(
        """
        @handler
        def f(input, effects):
            return [effects.operation_id, effects.call_id, effects.attempt, effects.whole_call]
        """,
        env={"EFFECTD_OPERATION_ID": "op_1", "EFFECTD_CALL_ID": "call_1", "EFFECTD_ATTEMPT": "2"},
    )
    assert talk.result == ["op_1", "call_1", 2, None]


def test_a_whole_call_effect_has_its_key(program):
    talk = program(
        "@handler\ndef f(input, effects):\n    return effects.whole_call\n",
        env={"EFFECTD_EFFECT_ID": "eff_1", "EFFECTD_IDEMPOTENCY_KEY": "eff_1"},
    )
    assert talk.result == ["", 0, "eff_1", "eff_1"]


# --- threads -------------------------------------------------------------------------------


def test_threads_take_turns_and_each_gets_its_own_answers(program):
    talk = program(
        """
        @handler
        def f(input, effects):
            found = {}
            def work(name):
                for turn in range(20):
                    effects.perform(name, turn, lambda e: found.setdefault(e.ordinal, [name, turn]))
            threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(8)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            return [found[n] for n in range(160)]
        """
    )
    assert talk.exit_status == 0, talk.stderr
    assert talk.problems == []
    announced = [[one.effect, one.request] for one in talk.announcements]
    assert talk.result == announced
    assert all(one.result == [one.effect, one.request] for one in talk.announcements)


@pytest.mark.guarantee("E14")
def test_a_confirmation_gets_through_while_an_announcement_is_kept_waiting(program):
    talk = program(
        """
        @handler
        def f(input, effects):
            made = threading.Event()
            def first(effect):
                made.wait()
                return "first"
            def late():
                effects.perform("second", 2, print)       # never answered
            def make(effect):
                threading.Thread(target=late, daemon=True).start()
                while not waiting():
                    pass
                return "first"
            def waiting():
                return effects._channel._asked
            return effects.perform("first", 1, make)
        """,
        answers=[leave(), silence()],
    )
    assert talk.result == "first"
    assert [one.outcome for one in talk.announcements] == ["applied", "not_applied"]


# --- the daemon misbehaves, or goes --------------------------------------------------------

GARBAGE = [
    b"nonsense\n",
    b"[1]\n",
    b'{"no":"type"}\n',
    b'{"type":7}\n',
    b"\xff\xfe\n",
    b'{"type":"leave"}\n',
    b'{"type":"leave","ordinal":"0","effect_id":"eff_1"}\n',
    b'{"type":"leave","ordinal":0}\n',
    b'{"type":"recorded","ordinal":0}\n',
    b"[" * 100_000 + b"\n",
]


@pytest.mark.parametrize("data", GARBAGE, ids=lambda data: repr(data)[:40])
def test_an_answer_that_is_garbage_is_no_leave(program, data):
    talk = program(CHARGE, {}, answers=[raw(data)])
    assert (types(talk), talk.stdout, talk.exit_status) == (["announce"], "", 1)
    assert "ProtocolError" in talk.stderr


@pytest.mark.parametrize(
    "data",
    [b"nonsense\n", b'{"type":"recorded","ordinal":5}\n', b'{"type":"leave","ordinal":1}\n'],
)
def test_garbage_instead_of_recorded_is_an_error_after_the_effect(program, data):
    talk = program(CHARGE, {}, confirmations=[raw(data)])
    assert (types(talk), talk.exit_status) == (["announce", "confirm"], 1)
    assert "ProtocolError" in talk.stderr


def test_two_answers_to_one_announcement_are_an_error(program):
    twice = b'{"type":"leave","ordinal":0,"effect_id":"eff_1"}\n' * 2
    talk = program(CHARGE, {}, answers=[raw(twice)])
    assert talk.exit_status == 1
    assert "nobody made" in talk.stderr


def test_a_refused_confirmation_raises_its_code(program):
    for data in (
        b'{"type":"refused","code":"EffectCorrelationMismatch"}\n',
        b'{"type":"refused","ordinal":0,"code":"EffectCorrelationMismatch"}\n',
    ):
        talk = program(CHARGE, {}, confirmations=[raw(data)])
        assert talk.exit_status == 1
        assert "Refused: EffectCorrelationMismatch" in talk.stderr


@pytest.mark.guarantee("E8")
def test_a_result_that_cannot_be_kept_does_not_make_its_effect_unknown(program):
    too_large = refused("InvalidInput", "a line of more than 69632 bytes")
    talk = program(CHARGE, {}, confirmations=[too_large])
    assert types(talk) == ["announce", "confirm", "confirm", "result"]
    assert talk.sent[2] == {"type": "confirm", "ordinal": 0, "outcome": "applied"}
    assert (talk.exit_status, talk.unknown, talk.result) == (0, [], {"id": "ch_1"})
    assert "a line of more than 69632 bytes" in talk.stderr


def test_what_a_newer_daemon_adds_is_passed_over(program):
    data = (
        b'\n{"type":"hint","x":1}\n'
        b'{"ordinal":0,"new":[{"type":"refused"}],"effect_id":"eff_1","type":"leave"}\n'
    )
    talk = program(CHARGE, {}, answers=[raw(data)])
    assert talk.exit_status == 0, talk.stderr


def test_an_answer_that_comes_in_pieces_is_one_answer(program):
    talk = program(CHARGE, {}, answers=[applied("x" * 3_000_000)])
    assert talk.result == "x" * 3_000_000


@pytest.mark.parametrize("kwargs", [{"answers": [hang_up()]}, {"confirmations": [hang_up()]}])
def test_when_the_daemon_has_gone_the_handler_ends_quietly(program, kwargs):
    talk = program(CHARGE, {}, **kwargs)
    assert (talk.exit_status, talk.stderr) == (74, "")
    assert len(talk.unknown) == ("confirmations" in kwargs)


def test_a_thread_that_waits_ends_too_when_the_daemon_has_gone(program):
    talk = program(
        """
        @handler
        def f(input, effects):
            def work():
                effects.perform("a", 1, print)
            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            effects.perform("b", 1, print)
        """,
        answers=[hang_up()],
    )
    assert (talk.exit_status, talk.stdout, talk.stderr) == (74, "", "")


def test_except_exception_does_not_swallow_the_end_of_the_daemon(program):
    talk = program(
        """
        @handler
        def f(input, effects):
            try:
                effects.perform("a", 1, print)
            except Exception:
                print("swallowed")
        """,
        answers=[hang_up()],
    )
    assert (talk.exit_status, talk.stdout) == (74, "")


# --- kills and relaunches ------------------------------------------------------------------

TWO = """
@handler
def two(input, effects):
    with open(input["log"], "a") as log:
        def make(effect):
            log.write(effect.effect_id + "\\n")
            log.flush()
            return effect.name
        return [effects.perform(name, name, make) for name in ("a", "b")]
"""


@pytest.mark.parametrize(
    ("kill", "made"),
    [
        ({"kill_at": 0}, ["a", "b"]),
        ({"kill_at": 1}, ["a", "b"]),
        ({"kill_at_confirmation": 0}, ["a", "a", "b"]),
        ({"kill_at_confirmation": 1}, ["a", "b", "b"]),
    ],
)
def test_a_relaunch_makes_what_was_not_confirmed_under_the_same_id(program, directory, kill, made):
    log = directory / "log"
    first = program(TWO, {"log": str(log)}, **kill)
    assert first.exit_status == -9
    again = program(TWO, {"log": str(log)}, answers=first.next_answers())
    assert (again.exit_status, again.result) == (0, ["a", "b"])
    ids = {one.effect_id: one.effect for one in [*again.announcements, *first.announcements]}
    lines = log.read_text().split()
    assert [ids[line] for line in lines] == made
    assert len(set(lines)) == 2


# --- how it is started ---------------------------------------------------------------------


def start(path, **env):
    environ = {key: value for key, value in os.environ.items() if not key.startswith("EFFECTD")}
    command = [sys.executable, str(path)]
    return subprocess.run(
        command, env={**environ, **env}, input="{}", capture_output=True, text=True, check=False
    )


def test_run_by_hand_it_says_how_it_is_run(directory):
    path = directory / "h.py"
    path.write_text(PRELUDE + CHARGE)
    done = start(path)
    assert done.returncode == 2
    assert done.stderr == "effectd: not started by effectd: use effectctl handlers try NAME\n"
    done = start(path, EFFECTD_FD="57")
    assert done.returncode == 2
    assert "57 is not open" in done.stderr


def test_an_input_that_is_not_json_is_said_to_be_that(directory):
    path = directory / "h.py"
    path.write_text(PRELUDE + CHARGE)
    with open(os.devnull) as null:
        environ = {**os.environ, "EFFECTD_FD": str(null.fileno())}
        done = subprocess.run(
            [sys.executable, str(path)],
            env=environ,
            input="not json",
            pass_fds=[null.fileno()],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "the input is not JSON" in done.stderr


FOLLOWED = [
    ("@handler\ndef f(input, effects):\n    return g()\ndef g(): return 1\n", 7),
    ("@handler\ndef f(input, effects):\n    return 1\n\n\nX = 1\n", 9),
    ("@handler\ndef f(input, effects):\n    def inner():\n        return 1\nprint(1)\n", 8),
    ("@handler\ndef f(input, effects): return 1\nif len('a'):\n    X = 1\n", 6),
    ("def wraps(f): return f\n@handler\n@wraps\ndef f(input, effects):\n    return 1\nX = 1\n", 9),
]


@pytest.mark.parametrize(("text", "line"), FOLLOWED, ids=range(len(FOLLOWED)))
def test_code_that_would_never_be_reached_is_named_before_anything_is_done(program, text, line):
    header = (
        "import os\nfrom effectd.handler import handler\n\n"  # its three lines, as in the table
    )
    talk = run_text(program, header + text)
    assert (talk.exit_status, talk.sent) == (2, [])
    assert f"line {line} comes after" in talk.stderr


def run_text(program, text):
    """Run a program that has no prelude."""
    path = program.__closure__[0].cell_contents / "bare.py"
    path.write_text(text)
    return run_handler(path, None)


WRAPPED = """
import functools
def w(f):
    @functools.wraps(f)
    def g(*a): return f(*a)
    return g
@handler
@w
def f(input, effects):
    return 1
"""

LAST = [
    "@handler\ndef f(input, effects):\n    return 1",
    "@handler\ndef f(input, effects): return 1\n\n# a comment\n\n",
    "@handler\ndef f(input, effects):\n    def inner():\n        return 1\n    return inner()\n",
    "def wraps(f): return f\n@handler\n@wraps\ndef f(input, effects):\n    return 1\n",
    "@handler\ndef f(\n    input,\n    effects=None,\n):\n    return (\n        1\n    )\n",
    WRAPPED,
    "if True:\n    @handler\n    def f(input, effects):\n        return 1\n",
    "@handler\nclass f:\n    def __new__(cls, input, effects):\n        return 1\n",
    "f = handler(lambda input, effects: 1)\n",
    "def f(input, effects):\n    return later()\ndef later(): return 1\nrun(f)\n",
    "def f(input, effects):\n    return 1\nif __name__ == '__main__':\n    run(f)\nX = 1\n",
]


@pytest.mark.parametrize("text", LAST, ids=range(len(LAST)))
def test_a_function_that_stands_last_is_run(program, text):
    talk = program(text)
    assert (talk.result, talk.exit_status, talk.stderr) == (1, 0, "")
    assert types(talk) == ["result"]


def test_an_async_function_is_said_to_be_that(program):
    talk = program("@handler\nasync def f(input, effects):\n    return 1\n")
    assert talk.exit_status == 2
    assert "asyncio.run" in talk.stderr


def test_in_a_module_that_is_imported_the_function_stays_a_function(program):
    @handler
    def doubled(value, effects):
        return value * 2

    assert doubled(2, None) == 4


def test_a_child_of_the_handler_does_not_get_its_channel(program):
    talk = program(
        """
        @handler
        def f(input, effects):
            import subprocess
            script = "import os\\ntry:\\n    os.fstat(3)\\nexcept OSError:\\n    print('closed')"
            return subprocess.run([sys.executable, "-c", script], close_fds=False,
                                  capture_output=True, text=True).stdout
        """
    )
    assert talk.result == "closed\n"


# --- the fixture ---------------------------------------------------------------------------


def test_a_function_of_a_file_can_be_run_as_a_handler():
    assert run_handler(pay, 5).result == [5, "pay"]
    assert run_handler(pay, "declined").announcements[0].outcome == "not_applied"


@pytest.mark.parametrize("what", [lambda value, effects: 1, json.loads.__call__, print])
def test_a_function_that_cannot_be_found_again_in_a_file_is_refused(what):
    with pytest.raises(ValueError, match="top level"):
        run_handler(what, 1)


def test_a_program_that_is_not_there_is_said_to_be_that(directory):
    with pytest.raises(FileNotFoundError):
        run_handler(directory / "none.py", 1)
    with pytest.raises(FileNotFoundError):
        run_handler([str(directory / "none")], 1)


def test_any_command_is_a_handler_and_its_stdout_the_result():
    talk = run_handler(["/bin/sh", "-c", "cat; echo oops >&2; exit 3"], {"a": 1})
    assert (talk.result, talk.stderr, talk.exit_status) == ({"a": 1}, "oops\n", 3)
    assert run_handler(["/bin/sh", "-c", "echo text"], None).result == "text\n"


def test_a_handler_that_hangs_is_ended_at_its_timeout(directory):
    talk = run_handler(["/bin/sh", "-c", "sleep 60 & sleep 60"], None, timeout_ms=200)
    assert talk.timed_out
    assert talk.exit_status == -9


def test_what_a_handler_leaves_behind_is_ended_with_it(directory):
    pid = directory / "pid"
    talk = run_handler(["/bin/sh", "-c", f"sleep 60 & echo $! > {pid}"], None)
    assert (talk.exit_status, talk.timed_out) == (0, False)
    deadline = time.monotonic() + 60
    while is_alive(pid.read_text().strip()):  # it was sent its end, and may be on the way there
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_problems_are_told(program):
    talk = program(
        """
        @handler
        def f(input, effects):
            os.write(3, b'nonsense\\n{"type":"confirm","ordinal":4,"outcome":"applied"}\\n')
            os.write(3, b'{"type":"annonce"}\\n')
        """
    )
    assert len(talk.problems) == 3


def test_the_environment_is_only_what_a_daemon_gives(program, monkeypatch):
    monkeypatch.setenv("LEAKED", "1")
    talk = program(
        "@handler\ndef f(input, effects):\n    return dict(os.environ)\n", env={"A": "b"}
    )
    assert "LEAKED" not in talk.result
    assert talk.result["A"] == "b"
    assert talk.result["EFFECTD_PROTOCOL"] == "1"


def test_everything_offered_is_there():
    assert all(hasattr(testing, name) for name in testing.__all__)
