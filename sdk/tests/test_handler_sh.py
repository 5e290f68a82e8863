"""The bash half of protocol 1."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import effectd.handler
from effectd.testing import applied, hang_up, raw, refused, run_handler

HELPER = Path(effectd.handler.__file__).with_name("handler.sh")
BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(BASH is None, reason="bash is not installed")

MAIL = """
input=$(cat)
if effectd_announce send-mail "$input"; then
  echo "made $EFFECTD_ORDINAL $EFFECTD_EFFECT_ID $EFFECTD_IDEMPOTENCY_KEY" >&2
  effectd_confirm applied "{\\"id\\":$(effectd_string 'a "quoted" id')}"
elif [ $? -ne 10 ]; then exit 1
fi
effectd_result "$EFFECTD_RESULT"
"""


def run(text, value=None, **kwargs):
    program = f"set -eu\n. {HELPER}\n{text}"
    return run_handler([BASH, "-c", program], value, **kwargs)


def test_an_effect_is_made_with_leave_confirmed_and_its_result_sent():
    talk = run(MAIL, {"to": "ä", "n": [1, 2]})
    assert talk.exit_status == 0, talk.stderr
    assert talk.sent == [
        {"type": "announce", "effect": "send-mail", "request": {"to": "ä", "n": [1, 2]}},
        {"type": "confirm", "ordinal": 0, "outcome": "applied", "result": {"id": 'a "quoted" id'}},
        {"type": "result", "value": {"id": 'a "quoted" id'}},
    ]
    effect_id = talk.announcements[0].effect_id
    assert talk.stderr == f"made 0 {effect_id} {effect_id}\n"


RESULTS = [
    None,
    7,
    True,
    "plain",
    "}",
    {"id": 1},
    {"type": "leave", "ordinal": 7, "result": {"type": "refused"}},
    'text with "quotes", \\ and }',
    [[], {}, "ä", ""],
    "x" * 100_000,
]


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: repr(result)[:40])
def test_an_effect_that_was_applied_before_is_not_made_and_its_result_is_the_same(result):
    talk = run(MAIL, {}, answers=[applied(result)])
    assert (talk.exit_status, talk.stderr) == (0, "")
    assert [one["type"] for one in talk.sent] == ["announce", "result"]
    assert talk.result == result


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"applied","ordinal":0}\n',
        b'{"type":"applied","ordinal":0,"result_unavailable":"too_large"}\n',
    ],
)
def test_applied_without_a_result_is_null(data):
    talk = run(MAIL, {}, answers=[raw(data)])
    assert (talk.exit_status, talk.result) == (0, None)


def test_a_refused_effect_is_not_made():
    talk = run(MAIL, {}, answers=[refused("UndeclaredEffect", "it says {leave}")])
    assert talk.exit_status == 1
    assert talk.stderr == "effectd: no leave for effect send-mail: UndeclaredEffect\n"
    assert len(talk.sent) == 1


def test_not_applied_carries_its_reason():
    reason = 'no: "x"\n\t\\ \x01\x1f ä'
    script = 'effectd_announce a 1\neffectd_confirm not_applied "$(printf \'%b\' "$REASON")"\n'
    talk = run(script, env={"REASON": reason.replace("\\", "\\\\").replace("\n", "\\n")})
    assert talk.exit_status == 0, talk.stderr
    assert (talk.announcements[0].outcome, talk.announcements[0].reason) == ("not_applied", reason)


@pytest.mark.parametrize("end", ["exit 0", "false", "kill -9 $$"])
def test_without_a_confirmation_the_effect_is_unknown(end):
    talk = run(f"effectd_announce a '{{}}'\n{end}\n")
    assert [one.effect for one in talk.unknown] == ["a"]


def test_several_effects_have_their_ordinals():
    talk = run("for n in 1 2 3; do effectd_announce e $n; effectd_confirm applied $n; done")
    assert talk.exit_status == 0, talk.stderr
    assert [(one.request, one.result) for one in talk.announcements] == [(1, 1), (2, 2), (3, 3)]


def test_json_of_several_lines_is_one_message():
    pretty = json.dumps({"a": [1, {"b": "c"}]}, indent=2)
    talk = run(
        'effectd_announce a "$(cat)"\neffectd_confirm applied "$PRETTY"\n', env={"PRETTY": pretty}
    )
    assert talk.problems == []
    assert talk.announcements[0].result == json.loads(pretty)


def test_progress_and_the_result_are_sent():
    talk = run("effectd_progress 0.5 'half \"way\"'\neffectd_result '[1]'\n")
    assert talk.progress == [{"type": "progress", "fraction": 0.5, "message": 'half "way"'}]
    assert talk.result == [1]


GARBAGE = [
    b"nonsense\n",
    b"[]\n",
    b'{"type":"leave"}\n',
    b'{"type":"recorded","ordinal":0}\n',
    b'{"type":"leave","ordinal":0,"effect_id":""}\n',
    b'{"type":"applied","ordinal":0,"x":{"result":1}}\n',
    b'{"a":{"type":"leave","ordinal":0}}\n',
]


@pytest.mark.parametrize("data", GARBAGE, ids=lambda data: repr(data)[:40])
def test_an_answer_that_is_garbage_is_no_leave(data):
    talk = run(MAIL, {}, answers=[raw(data)])
    assert talk.exit_status == 1
    assert "not a message of handler protocol 1" in talk.stderr
    assert len(talk.sent) == 1


@pytest.mark.guarantee("E8")
def test_a_result_that_cannot_be_kept_does_not_make_its_effect_unknown():
    talk = run(MAIL, {}, confirmations=[refused("InvalidInput", "too long")])
    assert talk.sent[2] == {"type": "confirm", "ordinal": 0, "outcome": "applied"}
    assert (talk.exit_status, talk.unknown) == (0, [])
    assert "not kept" in talk.stderr


@pytest.mark.parametrize("data", [b'{"type":"recorded","ordinal":1}\n', b'{"type":"refused"}\n'])
def test_a_confirmation_that_is_not_recorded_is_an_error(data):
    talk = run(MAIL, {}, confirmations=[raw(data)])
    assert talk.exit_status == 1
    assert [one["type"] for one in talk.sent] == ["announce", "confirm"]


@pytest.mark.parametrize("kwargs", [{"answers": [hang_up()]}, {"confirmations": [hang_up()]}])
def test_when_the_daemon_has_gone_the_script_ends(kwargs):
    talk = run(MAIL, {}, **kwargs)
    assert talk.exit_status == 74
    assert "made" not in talk.stderr or "confirmations" in kwargs


def test_run_by_hand_it_says_how_it_is_run():
    done = subprocess.run(
        [BASH, "-c", f". {HELPER}; echo reached"],
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "effectctl handlers try" in done.stderr


def test_another_shell_is_told():
    shell = shutil.which("dash")
    if shell is None:
        pytest.skip("dash is not installed")
    done = subprocess.run(
        [shell, "-c", f". {HELPER}; echo reached"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs bash" in done.stderr


TEXTS = ["", "plain", 'a"b', "a\\b", "a\nb\tc\rd", "\x01\x1f\x7f", "ä€😀", "%s $x `y` *"]


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_becomes_a_json_string(text):
    talk = run('effectd_result "$(effectd_string "$TEXT")"', env={"TEXT": text})
    assert talk.result == text
