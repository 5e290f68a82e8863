"""Secrets: where they are looked for, what is refused, what is never said."""

from __future__ import annotations

import os

import attrs
import pytest

from config.load import MAX_SECRET_BYTES, read_secret
from config.problems import ConfigError


def with_credentials(host):
    credentials = host.root / "credentials"
    credentials.mkdir()
    origin = attrs.evolve(host.config.origin, credentials_dir=credentials)
    return attrs.evolve(host.config, origin=origin), credentials


def complaint(config, name: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_secret(config, name)
    (problem,) = caught.value.problems
    return problem.text


def test_the_secrets_directory_comes_first_and_is_read_again_each_time(host):
    config, credentials = with_credentials(host)
    (credentials / "key").write_bytes(b"from the service")
    assert read_secret(config, "key") == b"from the service"
    (host.root / "secrets/key").write_bytes(b"one\n")
    assert read_secret(config, "key") == b"one\n"
    (host.root / "secrets/key").write_bytes(b"two")
    assert read_secret(config, "key") == b"two"


def test_a_missing_secret_names_every_place_that_was_looked_at(host):
    assert complaint(host.config, "key") == (
        f"{host.root}/secrets: key: no secret 'key': looked for {host.root}/secrets/key;"
        f" put it into {host.root}/secrets/key"
    )
    config, credentials = with_credentials(host)
    assert f"looked for {host.root}/secrets/key or {credentials}/key;" in complaint(config, "key")


@pytest.mark.parametrize("name", ["", ".", "..", "../key", "a/b", "/etc/shadow", "a\0b", "a\n"])
def test_a_secret_is_a_plain_file_name(host, name):
    assert "is no plain file name; name a file in secrets_dir" in complaint(host.config, name)


@pytest.mark.timeout(10)
def test_what_is_no_secret_is_refused_without_its_content(host):
    place = host.root / "secrets/key"
    place.write_bytes(b"")
    assert complaint(host.config, "key").endswith(f"{place} is empty; write the secret into it")
    place.write_bytes(b"s" * MAX_SECRET_BYTES)
    assert read_secret(host.config, "key") == b"s" * MAX_SECRET_BYTES
    place.write_bytes(b"hunter2" + b"s" * MAX_SECRET_BYTES)
    said = complaint(host.config, "key")
    assert f"{place} has more than 65_536 bytes" in said
    assert "hunter2" not in said
    place.unlink()
    os.mkfifo(place)
    assert f"{place} is a FIFO, not a regular file" in complaint(host.config, "key")
    place.unlink()
    place.symlink_to("/nowhere/at/all")
    assert f"{place} does not exist" in complaint(host.config, "key")


def test_a_broken_secret_is_never_replaced_by_the_services(host):
    config, credentials = with_credentials(host)
    (credentials / "key").write_bytes(b"another")
    (host.root / "secrets/key").mkdir()
    assert "is a directory, not a regular file" in complaint(config, "key")


def test_a_manifest_warns_of_secrets_that_are_missing_or_everybodys(host):
    place = host.root / "secrets/key"
    place.write_bytes(b"x")
    place.chmod(0o644)
    host.manifest("charge", 'secrets = ["key"]\nenv_from = { TOKEN = "token" }')
    assert [each.text.partition("secrets: ")[2] for each in host.load("charge").warnings] == [
        f"everybody can read {place}; chmod o-rwx {place}",
        f"no secret 'token' yet, so no attempt can start; put it into {host.root}/secrets/token",
    ]
    place.chmod(0o600)
    (host.root / "secrets/token").write_bytes(b"y")
    (host.root / "secrets/token").chmod(0o640)
    assert host.load("charge").warnings == ()
