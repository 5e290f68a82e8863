"""A handler's digest: the same while nothing changed, another as soon as something did."""

from __future__ import annotations

import hashlib
import os
import time

import attrs
import pytest

from config.load import Hashes, fresh, load_handler, stale
from config.load.digest import SETTLED_NS, handler_digest
from config.problems import WrongValueError

pytestmark = pytest.mark.guarantee("E13")


def test_touching_and_rewriting_alike_keep_the_digest(host):
    program = host.program("charge")
    host.manifest("charge")
    handler = host.load("charge")
    os.utime(program)
    assert fresh(handler) == handler.digest
    content = program.read_bytes()
    program.unlink()
    program.write_bytes(content)
    program.chmod(0o755)
    assert fresh(handler) == handler.digest


def test_an_edit_changes_the_digest_even_within_one_tick_and_with_the_old_times(host):
    program = host.program("charge", "#!/bin/sh\nexit 0\n")
    host.manifest("charge")
    handler = host.load("charge")
    status = program.stat()
    program.write_text("#!/bin/sh\nexit 1\n")
    os.utime(program, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert fresh(handler) != handler.digest
    program.write_text("#!/bin/sh\nexit 0\n")
    assert fresh(handler) == handler.digest


def test_a_flipped_link_changes_the_digest_even_to_an_equal_file(host):
    host.program("v1/charge")
    host.program("v2/charge")
    current = host.root / "bin" / "current"
    current.symlink_to("v1")
    host.manifest("charge", command=f'["{current}/charge"]')
    handler = host.load("charge")
    current.unlink()
    current.symlink_to("v2")
    assert fresh(handler) != handler.digest
    current.unlink()
    current.symlink_to("v1")
    assert fresh(handler) == handler.digest


@pytest.mark.parametrize("gone", ["removed", "a directory", "a loop"])
def test_a_file_that_cannot_be_read_equals_no_digest(host, gone):
    program = host.program("charge")
    host.manifest("charge")
    handler = host.load("charge")
    program.unlink()
    if gone == "a directory":
        program.mkdir()
    elif gone == "a loop":
        program.symlink_to(program)
    assert fresh(handler) != handler.digest


@pytest.mark.parametrize("kind", ["artifact", "reconciler", "input schema", "result schema"])
def test_everything_a_handler_is_made_of_counts(host, kind):
    file = host.root / "file"
    file.write_text("{}" if "schema" in kind else "#!/bin/sh\n")
    file.chmod(0o755)
    text = {
        "artifact": f'artifacts = ["{file}"]',
        "reconciler": '[[effect]]\nname = "a"\ncontract = "reconciliation"\n'
        f'reconcile = {{ command = ["{file}"] }}',
        "input schema": f'input_schema = "{file}"',
        "result schema": f'result_schema = "{file}"',
    }[kind]
    host.manifest("charge", text)
    handler = host.load("charge")
    assert str(file) in handler.artifacts
    with file.open("a") as opened:
        opened.write(" ")
    assert fresh(handler) != handler.digest


def test_the_manifest_counts_as_parsed_and_the_loaded_one_stays_in_force(host):
    file = host.manifest("charge", "max_running = 3")
    handler = host.load("charge")
    file.write_text("# a comment\n" + file.read_text().replace("1_000", "1000"))
    assert host.load("charge").digest == handler.digest
    file.write_text(file.read_text().replace("max_running = 3", "max_running = 5"))
    assert fresh(handler) == handler.digest
    assert host.load("charge").digest != handler.digest


@pytest.mark.guarantee("E13")
def test_who_may_run_it_and_how_it_is_described_is_not_what_a_handler_is(host):
    host.manifest("charge", 'description = "one"\n[access]\nrun = ["uid:1"]')
    digest = host.load("charge").digest
    host.manifest("charge", 'description = "two"\n[access]\nrun = ["uid:2"]\n[test]\ninput = {}')
    assert host.load("charge").digest == digest


def test_two_handlers_with_one_text_are_two(host):
    host.manifest("one", command='["/bin/true"]')
    host.manifest("two", command='["/bin/true"]')
    handlers = host.load_all()
    assert handlers["one"].digest != handlers["two"].digest
    assert handlers["one"].artifacts == handlers["two"].artifacts


def test_the_digest_of_a_manifest_is_the_same_in_every_release():
    # A journal names this digest: what it covers can never change within the format.
    assert (
        handler_digest(
            "charge",
            {"manifest": 1, "command": ["/opt/charge"], "timeout_ms": 10_000},
            {"/opt/charge": "00" * 32},
        )
        == "6aaca46125d41933b17ba45911f1812418a53b6b9a9375c272fd736541cc511a"
    )


def test_a_settled_file_is_hashed_once(host, monkeypatch):
    program = host.program("charge")
    hashes = Hashes()
    reads: list[str] = []
    real = hashlib.file_digest

    def counted(file, name):
        reads.append(file.name)
        return real(file, name)

    monkeypatch.setattr("config.load.digest.hashlib.file_digest", counted)
    hashes.of(program)
    hashes.of(program)
    assert len(reads) == 2, "a file this young may change within its timestamp's tick"
    later = time.time_ns() + SETTLED_NS + 1
    monkeypatch.setattr("config.load.digest.time.time_ns", lambda: later)
    hashes.of(program)
    hashes.of(program)
    hashes.of(program)
    assert len(reads) == 3
    program.write_text("#!/bin/sh\n# changed\n")
    hashes.of(program)
    assert len(reads) == 4


def test_a_file_that_never_stands_still_is_refused(host, monkeypatch):
    program = host.program("charge")
    real = hashlib.file_digest

    def interrupted(file, name):
        digest = real(file, name)
        with program.open("a") as opened:
            opened.write("more\n")
        return digest

    monkeypatch.setattr("config.load.digest.hashlib.file_digest", interrupted)
    with pytest.raises(WrongValueError, match="changes while it is read"):
        Hashes().of(program)


def test_a_clock_that_went_back_makes_no_hash_stick(host, monkeypatch):
    program = host.program("charge")
    hashes = Hashes()
    monkeypatch.setattr("config.load.digest.time.time_ns", lambda: 0)
    first = hashes.of(program)
    program.write_text("#!/bin/sh\n# changed\n")
    assert hashes.of(program) != first


def test_a_file_with_a_name_that_is_not_utf8_has_a_digest(host):
    raw = os.fsencode(host.root / "bin") + b"/charge\xff"
    host.program("charge").rename(os.fsdecode(raw))
    (host.root / "link").symlink_to(os.fsdecode(raw))
    host.manifest("charge", command=f'["{host.root}/link"]')
    handler = host.load("charge")
    assert list(handler.artifacts) == [f"{host.root}/bin/charge\\xff"]
    assert fresh(handler) == handler.digest


def test_a_changed_directory_is_noticed(host):
    file = host.manifest("charge")
    handlers = host.load_all()
    assert not stale(host.config, handlers)
    with file.open("a") as opened:
        opened.write("# more\n")
    assert stale(host.config, handlers)
    handlers = host.load_all()
    host.manifest("another")
    assert stale(host.config, handlers)
    handlers = host.load_all()
    file.unlink()
    assert stale(host.config, handlers)


def test_a_handler_shares_the_memory_it_was_loaded_with(host):
    file = host.manifest("charge")
    hashes = Hashes()
    handler = load_handler(host.config, file, hashes)
    assert handler.hashes is hashes
    assert attrs.evolve(handler, hashes=Hashes()) == handler
