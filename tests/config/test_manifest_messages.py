"""Bad manifests and what is said about them, word for word."""

from __future__ import annotations

import os

import pytest

EFFECT = '[[effect]]\nname = "charge"\n'

# What follows a good manifest's first lines, and everything that is then said.
ONE_MANIFEST: dict[str, tuple[str, list[str]]] = {
    "unknown key, near": (
        "time_out_ms = 3",
        ["time_out_ms: this key is unknown; did you mean timeout_ms? Rename or remove it"],
    ),
    "unknown key of another table": (
        'memory_max = "1G"',
        ["memory_max: this key is unknown here; it belongs in [sandbox]"],
    ),
    "unknown key in a table": (
        "[output]\nfrobnicate = 1",
        [
            (
                "output.frobnicate: this key is unknown;"
                " known here: result_max_bytes, output_max_bytes"
            )
        ],
    ),
    "unknown key in a list of tables": (
        EFFECT + 'contract = "none"\nmanny = true',
        ["effect[0].manny: this key is unknown; did you mean effect[0].many? Rename or remove it"],
    ),
    "a number as a text": (
        'grace_ms = "7"',
        ["grace_ms: expected an integer, got the text '7'; write 7 without quotes"],
    ),
    "true as a number": (
        "grace_ms = true",
        ["grace_ms: expected an integer, got true; write a whole number without quotes"],
    ),
    "a decimal number as a duration": (
        "grace_ms = 1.5",
        [
            (
                "grace_ms: expected an integer, got the decimal number 1.5;"
                " write a whole number without quotes"
            )
        ],
    ),
    "one as true": (
        "read_only = 1",
        ["read_only: expected true or false, got the integer 1; write true or false"],
    ),
    "a text for a list": (
        'artifacts = "/x"',
        ["artifacts: expected a list, got the text '/x'; put it between square brackets"],
    ),
    "a table for a list": (
        '[effect]\nname = "charge"',
        [
            (
                "effect: expected a list, got a table; write [[...]] with two brackets for a list"
                " of tables, or [...] for a list"
            )
        ],
    ),
    "a number for a table": (
        "sandbox = 3",
        ["sandbox: expected a table, got the integer 3; write key = { ... } or [key]"],
    ),
    "negative": (
        "grace_ms = -1",
        ["grace_ms: -1 is out of range; choose a value from 0 to 31_622_400_000"],
    ),
    "contract, near": (
        EFFECT + 'contract = "no_safe_retries"',
        [
            (
                'effect[0].contract: expected one of "none", "idempotency_key", "reconciliation",'
                ' "no_safe_retry", got the text \'no_safe_retries\'; did you mean "no_safe_retry"?'
                ' Allowed: "none", "idempotency_key", "reconciliation", "no_safe_retry"'
            )
        ],
    ),
    "no contract": (
        EFFECT,
        [
            (
                "effect[0].contract: it is required; add contract = one of none, idempotency_key,"
                " reconciliation, no_safe_retry"
            )
        ],
    ),
    "reconciler without a command": (
        EFFECT + 'contract = "reconciliation"\nreconcile = { timeout_ms = true }',
        [
            'effect[0].reconcile.command: it is required; add command = ["/path/to/program"]',
            (
                "effect[0].reconcile.timeout_ms: expected an integer, got true; write a whole"
                " number without quotes"
            ),
        ],
    ),
    "a size with a strange unit": (
        '[sandbox]\nmemory_max = "12Q"',
        [
            (
                "sandbox.memory_max: expected a size, got the text '12Q'; write bytes as an"
                ' integer, or a text like "256M" or "1G" (K, M, G, T; powers of 1024)'
            )
        ],
    ),
    "too many effects": (
        "[sandbox]\neffects_max = 10_001",
        ["sandbox.effects_max: 10001 is out of range; choose a value from 1 to 10_000"],
    ),
    "two effects of one name": (
        (EFFECT + 'contract = "none"\n') * 2,
        ["effect[1].name: another effect is named 'charge'; rename one"],
    ),
    "whole call beside another": (
        EFFECT + 'contract = "none"\nscope = "call"\n[[effect]]\nname = "mail"\ncontract = "none"',
        [
            (
                'effect[0].scope: an effect with scope = "call" is the whole call and must be the'
                ' only one; announce the effects one by one (scope = "announced"), or declare only'
                " this one"
            )
        ],
    ),
    "many whole calls": (
        EFFECT + 'contract = "none"\nscope = "call"\nmany = true',
        [
            (
                "effect[0].many: a whole-call effect is made once; remove many, or use"
                ' scope = "announced"'
            )
        ],
    ),
    "nobody to ask, and yet a reconciler": (
        EFFECT + 'contract = "no_safe_retry"\nreconcile = { command = ["/bin/true"] }',
        [
            (
                'effect[0].reconcile: contract "no_safe_retry" says that nobody can be asked;'
                ' use contract = "reconciliation", or remove reconcile'
            )
        ],
    ),
    "a key's validity without a key": (
        EFFECT + 'contract = "none"\nkey_valid_ms = 5',
        [
            (
                'effect[0].key_valid_ms: contract "none" has no key; remove it, or use'
                ' contract = "idempotency_key"'
            )
        ],
    ),
    "exits that say not applied, of an announced effect": (
        EFFECT + 'contract = "none"\nnot_applied_exits = [3]',
        [
            (
                "effect[0].not_applied_exits: an announced effect is settled by what the handler"
                ' confirms, not by its exit; remove it, or use scope = "call"'
            )
        ],
    ),
    "exit 0 as not applied": (
        EFFECT + 'contract = "none"\nscope = "call"\nnot_applied_exits = [0]',
        ["effect[0].not_applied_exits[0]: 0 is out of range; choose a value from 1 to 255"],
    ),
    "read-only and charging": (
        "read_only = true\n" + EFFECT + 'contract = "idempotency_key"',
        [
            (
                "effect[0].contract: a read_only handler changes nothing, and"
                ' "idempotency_key" says it does; remove read_only, or declare contract = "none"'
            )
        ],
    ),
    "a result larger than all output": (
        '[output]\nresult_max_bytes = "2M"\noutput_max_bytes = "1M"',
        [
            (
                "output.output_max_bytes: 1048576 bytes of output cannot hold a result of"
                " result_max_bytes (2097152); raise it, or lower result_max_bytes"
            )
        ],
    ),
    "no sandbox, not trusted": (
        '[sandbox]\nlevel = "none"',
        [
            (
                'sandbox.level: level "none" runs the handler without a sandbox, which only a'
                ' trusted one may; set level = "strict", or trusted = true if you mean it'
            )
        ],
    ),
    "LD_PRELOAD": (
        'env = { LD_PRELOAD = "x" }',
        [
            (
                "env.LD_PRELOAD: handlers cannot be given this variable: it changes what is loaded,"
                " or is effectd's own; remove it"
            )
        ],
    ),
    "effectd's variables": (
        'env_from = { EFFECTD_CALL_ID = "x" }',
        [
            (
                "env_from.EFFECTD_CALL_ID: handlers cannot be given this variable: it changes what"
                " is loaded, or is effectd's own; remove it"
            )
        ],
    ),
    "no variable's name": (
        'env = { "A=B" = "x" }',
        [
            (
                "env.A=B: 'A=B' cannot name an environment variable; use letters, digits and _,"
                " no digit first"
            )
        ],
    ),
    "one variable twice": (
        'env = { KEY = "x" }\nenv_from = { KEY = "y" }',
        ["env_from.KEY: env sets the same variable; remove one of the two"],
    ),
    "a secret with a slash": (
        'secrets = ["../shadow"]',
        [
            (
                "secrets[0]: the text '../shadow' is not allowed here; name a plain file: letters,"
                " digits, '.', '_' and '-', without a slash"
            )
        ],
    ),
    "a home directory by tilde": (
        '[sandbox]\nread = ["~/data"]',
        [
            (
                "sandbox.read[0]: the text '~/data' starts with ~, which only shells expand;"
                " write the full path"
            )
        ],
    ),
    "NUL in an argument": (
        'description = "a\\u0000b"',
        ["description: the text contains a NUL character; remove it"],
    ),
    "a date in a test's input": (
        "[test]\ninput = { a = [1, { b = 2024-01-01 }] }",
        ["test.input: a[1].b is a date, which JSON cannot carry; write it as a text"],
    ),
    "an integer that JSON rounds": (
        "[test]\ninput = { a = 9_007_199_254_740_993 }",
        [
            (
                "test.input: a is the integer 9007199254740993, which JSON cannot carry;"
                " write it as a text"
            )
        ],
    ),
    "a group that does not exist": (
        '[access]\nrun = ["group:no-such-group-here"]',
        [
            (
                "access.run[0]: this host knows no group 'no-such-group-here'; create it (groupadd"
                " --system no-such-group-here) or correct the name"
            )
        ],
    ),
    "a principal of no kind": (
        '[access]\nrun = ["billing"]',
        [
            (
                "access.run[0]: the text 'billing' names no user or group; write \"group:NAME\","
                ' "user:NAME", "uid:NUMBER" or "gid:NUMBER"'
            )
        ],
    ),
    "a command's count that names nothing": (
        '[test]\ncount = [""]',
        ['test.count: it names no program; write ["/path/to/program", "argument", ...]'],
    ),
    "an empty path": (
        'artifacts = [""]',
        ["artifacts[0]: the path is empty; name a file or remove the entry"],
    ),
    "a text for a table of variables": (
        'env = "A=1"',
        ["env: expected a table, got the text 'A=1'; write { NAME = value, ... }"],
    ),
    "a list as a test's input": (
        "[test]\ninput = [1]",
        ["test.input: expected a table, got a list; write { key = value }"],
    ),
    "a missing artifact": (
        'artifacts = ["/no/such/file"]',
        ["artifacts: /no/such/file does not exist; create it or correct the path"],
    ),
    "a directory as an artifact": (
        'artifacts = ["/usr"]',
        ["artifacts: /usr is a directory, not a regular file; name a regular file"],
    ),
    "a name in an escape sequence": (
        '"\\u001b[31m" = 1',
        [
            (
                "\\x1b[31m: this key is unknown; known here: manifest, command, timeout_ms,"
                " description, grace_ms, read_only, max_running, input_schema, result_schema,"
                " artifacts, secrets, env_from, env, effect, sandbox, output, test, access"
            )
        ],
    ),
    "the whole file's faults at once": (
        (
            'grace_ms = "x"\nbogus = 1\n'
            '[sandbox]\nread = ["/"]\n[access]\nrun = ["group:nobody-at-all"]'
        ),
        [
            "grace_ms: expected an integer, got the text 'x'; write a whole number without quotes",
            (
                "bogus: this key is unknown; known here: manifest, command, timeout_ms,"
                " description, grace_ms, read_only, max_running, input_schema, result_schema,"
                " artifacts, secrets, env_from, env, effect, sandbox, output, test, access"
            ),
            (
                "access.run[0]: this host knows no group 'nobody-at-all'; create it (groupadd"
                " --system nobody-at-all) or correct the name"
            ),
            (
                "sandbox.read[0]: / contains ROOT/state, the state directory, which no handler may"
                " reach; name narrower paths elsewhere"
            ),
        ],
    ),
}


@pytest.mark.parametrize("case", ONE_MANIFEST)
def test_a_bad_manifest_is_refused_in_these_words(host, case):
    text, said = ONE_MANIFEST[case]
    host.manifest("charge", text)
    assert host.complaints("charge") == said


# Whole files.
WHOLE_FILES: dict[str, tuple[bytes, list[str]]] = {
    "empty": (
        b"",
        [
            "manifest: it is required; add manifest = 1, the version of this format",
            'command: it is required; add command = ["/path/to/program"]',
            (
                "timeout_ms: it is required; add timeout_ms, the longest that one attempt may run,"
                " in milliseconds"
            ),
        ],
    ),
    "a newer version": (
        b'manifest = 2\ncommand = ["/bin/true"]\ntimeout_ms = 1',
        ["manifest: expected 1, got the integer 2; write 1"],
    ),
    "version true": (
        b'manifest = true\ncommand = ["/bin/true"]\ntimeout_ms = 1',
        ["manifest: expected 1, got true; write 1"],
    ),
    "timeout zero": (
        b'manifest = 1\ncommand = ["/bin/true"]\ntimeout_ms = 0',
        ["timeout_ms: 0 is out of range; choose a value from 1 to 31_622_400_000"],
    ),
    "no program": (
        b"manifest = 1\ncommand = []\ntimeout_ms = 1",
        ['command: it names no program; write ["/path/to/program", "argument", ...]'],
    ),
    "a key twice": (
        b"manifest = 1\nmanifest = 1\n",
        ["it is not TOML: Cannot overwrite a value (at line 2, column 13); correct that line"],
    ),
    "bad TOML": (
        b"manifest = 1\ncommand = [\n\ntimeout_ms 5\n",
        ["it is not TOML: Invalid value (at line 4, column 1); correct that line"],
    ),
    "Latin-1": (
        b'manifest = 1\ndescription = "caf\xe9"\n',
        ["ROOT/handlers.d/charge.toml is not UTF-8: byte 0xe9 in line 2; save it as UTF-8"],
    ),
    "a NUL": (
        b"manifest = 1\0\n",
        [
            (
                "it is not TOML: Expected newline or end of document after a statement (at line 1,"
                " column 13); correct that line"
            )
        ],
    ),
    "huge": (
        b"#" * 2_000_000,
        [
            (
                "ROOT/handlers.d/charge.toml has more than 1_048_576 bytes; this is hardly the"
                " right file: name another"
            )
        ],
    ),
    "deep brackets": (
        b"x = " + b"[" * 8_000,
        ["it is nested more than 64 deep; no key needs that: flatten it"],
    ),
    "deep tables": (
        b"[" + b"a." * 64 + b"a]\n",
        ["it is nested more than 64 deep; no key needs that: flatten it"],
    ),
    "an endless line": (
        b"manifest = 1\n[" + b"a." * 100_000 + b"a]\n",
        [
            (
                "line 2 has 200_003 characters, and 8_192 are allowed; break it up; texts of many"
                ' lines stand between """'
            )
        ],
    ),
    "a number of 5,000 digits": (
        b"manifest = " + b"9" * 5_000,
        ["it holds an endless number or a date that is none; correct it"],
    ),
}


@pytest.mark.parametrize("case", WHOLE_FILES)
def test_a_file_that_is_no_manifest_is_refused_in_these_words(host, case):
    content, said = WHOLE_FILES[case]
    (host.manifests / "charge.toml").write_bytes(content)
    assert host.complaints("charge") == said


def test_a_thousand_unknown_keys_are_not_guessed_one_by_one(host):
    host.raw("charge", "\n".join(f"key{n} = 1" for n in range(1_000)))
    said = host.complaints("charge")
    assert "950 more keys are unknown; this is hardly the right file: name another" in said
    assert len(said) == 54


@pytest.mark.timeout(10)
def test_what_is_no_regular_file_is_refused_and_never_waited_for(host):
    file = host.manifests / "charge.toml"
    os.mkfifo(file)
    assert host.complaints("charge") == [
        "ROOT/handlers.d/charge.toml is a FIFO, not a regular file; name a regular file"
    ]
    file.unlink()
    file.mkdir()
    assert host.complaints("charge") == [
        "ROOT/handlers.d/charge.toml is a directory, not a regular file; name a regular file"
    ]
    file.rmdir()
    file.symlink_to("/dev/zero")
    assert host.complaints("charge") == [
        "ROOT/handlers.d/charge.toml is a device, not a regular file; name a regular file"
    ]
    file.unlink()
    file.symlink_to(file)
    assert host.complaints("charge") == [
        "ROOT/handlers.d/charge.toml is a loop of symbolic links; point the link at a file"
    ]
    file.unlink()
    assert host.complaints("charge") == [
        "ROOT/handlers.d/charge.toml does not exist; create it or correct the path"
    ]


@pytest.mark.parametrize("stem", ["Charge", "charge_card", "-x", "x" * 65, "a b", "ä"])
def test_a_handler_is_named_by_its_file_and_not_by_anything(host, stem):
    host.manifest(stem, command='["/bin/true"]')
    assert host.complaints(stem) == [
        (
            f"{stem + '.toml'!r} names no handler; rename it: 1-64 of a-z, 0-9 and -, a letter or"
            " digit first, then .toml"
        )
    ]
