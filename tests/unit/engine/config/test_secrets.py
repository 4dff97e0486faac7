"""Passwords in every possible place of a file appear in no text for users."""

import traceback
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from rich.pretty import pretty_repr

from engine.base.errors import ConfigError
from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from engine.config.file.providers import Providers, Where
from engine.config.property_reader import PropertyReader
from engine.config.secrets import SECRET_KEYS, handshake_options, is_secret
from engine.config.settings import MirrorConfig
from tests.unit.engine.config_files import BASE

CANARY = "c4n4ry"
KEYS = [
    f"{level}{key}"
    for level in ("", "A.", "B.", "A.consumer.", "B.producer.", "A.admin.", "A->B.source.consumer.")
    for key in SECRET_KEYS
]
VALUES = [
    f'M required username="u" password="{CANARY}";',
    f"M required username=u password=a#{CANARY};",
    f"\\{CANARY}",
    f"{CANARY} # why",
    f"{CANARY}{{1,2}}{CANARY} ",
    f"${{vault:{CANARY}}}",
]


def texts_of(config: MirrorConfig) -> Iterator[str]:
    for thing in (config, *config.clusters.values(), *config.flows, *config.warnings, *config.notes):
        yield from (repr(thing), str(thing), pretty_repr(thing))
    yield config.digest


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("key", KEYS)
def test_a_secret_shows_nowhere(key: str, value: str) -> None:
    properties = parse_properties(f"{BASE}{key} = {value}\n{key} = {value}\n", "mm2.properties")
    entry = properties.entries[key]
    seen = [repr(properties), pretty_repr(properties), str(entry), pretty_repr(entry), str(properties.traps)]
    seen.append(repr(PropertyReader(properties)))
    try:
        seen += texts_of(read_config(properties))
    except ConfigError as error:
        seen += [str(error), repr(error), "".join(traceback.format_exception(error))]
    assert [text for text in seen if CANARY in text] == []


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT", "SSL"])
def test_a_secret_shows_in_no_handshake(protocol: str, value: str) -> None:
    extra = "".join(f"B.{key} = {value}\n" for key in SECRET_KEYS if key != "ssl.keystore.key")
    extra += f"B.security.protocol = {protocol}\nB.sasl.mechanism = PLAIN\nB.ssl.truststore.certificates = {CANARY}\n"
    seen = []
    try:
        config = read_config(parse_properties(BASE + extra, "mm2.properties"))
        found = handshake_options(config.clusters["B"], "me")
        seen += [repr(found), str(found), pretty_repr(found)]
    except ConfigError as error:
        seen += [str(error), repr(error)]
    assert seen
    if "vault" not in value:  # the name inside a placeholder is no secret, and an error has to tell it
        assert [text for text in seen if CANARY in text] == []


def test_what_a_placeholder_stands_for_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYMIRROR_TEST_WORD", CANARY)
    word = "${env:RAYMIRROR_TEST_WORD}"
    for key in ("replication.factor", "A.bootstrap.servers", "replication.policy.class", "A.consumer.isolation.level"):
        with pytest.raises(ConfigError, match="the value of its placeholder cannot be used") as caught:
            read_config(parse_properties(f"{BASE}{key} = {word}\n", "mm2.properties"))
        assert CANARY not in "".join(traceback.format_exception(caught.value))
    warned = read_config(parse_properties(f"{BASE}B.producer.acks = {word}\n", "mm2.properties"))
    assert CANARY not in str(warned.warnings)
    assert warned.warnings[0].key == "B.producer.acks"


def test_a_secret_is_not_resolved_before_it_is_used() -> None:
    extra = "B.security.protocol = SASL_PLAINTEXT\nB.sasl.mechanism = PLAIN\nB.sasl.jaas.config = ${file:/nowhere:k}\n"
    config = read_config(parse_properties(BASE + extra, "mm2.properties"))
    assert msgspec.structs.asdict(config.clusters["B"])["security"]["sasl.jaas.config"] == "${file:/nowhere:k}"
    with pytest.raises(ConfigError, match="cannot read /nowhere"):
        handshake_options(config.clusters["B"], "me")


@pytest.mark.parametrize("key", ["A->B.topics", "tasks.max.enforce", "B.sasl.jaas.config", "x"])
def test_the_digest_is_of_every_value_and_of_nothing_else(key: str) -> None:
    def digest(text: str) -> str:
        return read_config(parse_properties(text, "mm2.properties")).digest

    one = digest(f"{BASE}{key} = a\n")
    assert digest(f"# why\n\n{key}=a\n! so\n{BASE}") == one
    assert digest(f"{BASE}{key} = b\n") != one
    assert digest(BASE) != one
    assert digest(f"{BASE}{key} = a\\ny = b\n") != digest(f"{BASE}{key} = a\ny = b\n")


@pytest.mark.parametrize(
    ("name", "wrong"), [("binary", "is not UTF-8"), ("a\0b", "with a NUL in its name"), ("none", "No such file")]
)
def test_a_file_of_a_directory_that_cannot_be_read(tmp_path: Path, name: str, wrong: str) -> None:
    (tmp_path / "binary").write_bytes(b"\xffc4n4ry")
    with pytest.raises(ConfigError, match=wrong) as caught:
        Providers().resolve(f"${{directory:{tmp_path}:{name}}}", Where("f", 1, "k"))
    assert "c4n4ry" not in str(caught.value)


@pytest.mark.parametrize(
    "key",
    [
        *(
            "B.bootstrap.servers",
            "B.security.protocol",
            "B.sasl.mechanism",
            "B.ssl.protocol",
            "B.ssl.enabled.protocols",
        ),
        *(
            "B.ssl.cipher.suites",
            "B.ssl.truststore.type",
            "A->B.tasks.max",
            "A->B.enabled",
            "A.consumer.isolation.level",
        ),
        *("A->B.replication.policy.class", "A->B.topic.filter.class", "raymirror.unsupported", "clusters"),
    ],
)
def test_a_backslash_that_joins_a_login_to_another_value_shows_no_password(key: str) -> None:
    lines = {line.partition(" =")[0]: line for line in BASE.splitlines()}
    lines |= {"B.security.protocol": "B.security.protocol = SASL_SSL", "B.sasl.mechanism": "B.sasl.mechanism = PLAIN"}
    lines |= {"B.ssl.truststore.location": "B.ssl.truststore.location = /none"}
    joined = lines.pop(key, f"{key} = x")
    login = f'B.sasl.jaas.config = M required username="u" password="{CANARY}";'
    text = "\n".join([*lines.values(), f"{joined}\\", login, ""])
    with pytest.raises(ConfigError) as caught:
        handshake_options(read_config(parse_properties(text, "f")).clusters["B"], "me").credentials()
    assert CANARY not in f"{caught.value} {caught.value!r}"


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("SCRAM-SHA-512B.sasl.jaas.config = M", True),
        ('M required password="x";', True),
        ("https://me:pw@issuer.example/token", True),
        ("https://issuer.example/token?who=me@there", False),
        ("${file:/etc/mirror/secret:servers}", False),
        ("orders.*, passwords", False),
    ],
)
def test_values_that_may_have_a_password(value: str, secret: bool) -> None:
    assert is_secret("topics", value) is secret
