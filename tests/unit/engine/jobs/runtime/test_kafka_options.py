"""A cluster as Spark's options: logins for Java, stores as text, and no secret in any text of raymirror."""

from pathlib import Path

import pytest
from rich.pretty import pretty_repr

from engine.base.errors import ConfigError
from engine.jobs.runtime.kafka_options import KafkaOptions, kafka_options
from tests.harness.stores import make_key
from tests.unit.engine.config_files import mirror

SECRET = "hush-hush"
SCRAM = "B.security.protocol = sasl_plaintext\nB.sasl.mechanism = SCRAM-SHA-512\n"
KEY = "-----BEGIN PRIVATE KEY-----\nAAA\n-----END PRIVATE KEY-----"
CERTIFICATES = [f"-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----" for name in ("one", "two")]


def options(extra: str) -> KafkaOptions:
    return kafka_options(mirror(extra).clusters["B"])


def test_a_plain_cluster() -> None:
    found = kafka_options(mirror().clusters["A"])
    assert found == {"kafka.bootstrap.servers": "a1:9092,a2:9092", "kafka.security.protocol": "PLAINTEXT"}


def test_an_address_of_ipv6_has_brackets() -> None:
    base = "clusters = A, B\nA.bootstrap.servers = [::1]:9092\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
    found = kafka_options(mirror(base=base).clusters["A"])
    assert found["kafka.bootstrap.servers"] == "[::1]:9092"


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-256", "scram.ScramLoginModule")],
)
def test_a_login_is_written_anew_for_java(mechanism: str, module: str) -> None:
    login = 'any.Module required username=\'a b\' password="p\\\\"w\\\\\\\\";'
    extra = f"B.security.protocol = SASL_PLAINTEXT\nB.sasl.mechanism = {mechanism}\nB.sasl.jaas.config = {login}\n"
    found = options(extra)
    assert found["kafka.sasl.mechanism"] == mechanism
    assert found["kafka.sasl.jaas.config"] == (
        f'org.apache.kafka.common.security.{module} required username="a b" password="p\\"w\\\\";'
    )


def test_secrets_are_in_no_text(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text(f"password={SECRET}\n")
    login = f'M required username="u" password="${{file:{tmp_path}/secrets:password}}";'
    found = options(f"{SCRAM}B.sasl.jaas.config = {login}\n")
    assert SECRET in found["kafka.sasl.jaas.config"]
    for text in (repr(found), str(found), f"{found}", pretty_repr(found)):
        assert SECRET not in text


def test_stores_go_along_as_text(tmp_path: Path) -> None:
    trust, own = tmp_path / "trust.pem", tmp_path / "own.pem"
    trust.write_text("some words\n" + "\n".join(CERTIFICATES))
    locked = KEY.replace("PRIVATE", "ENCRYPTED PRIVATE")
    own.write_text("\n".join([locked, *CERTIFICATES]))
    found = options(
        f"B.security.protocol = SSL\nB.ssl.truststore.type = PEM\nB.ssl.truststore.location = {trust}\n"
        f"B.ssl.keystore.type = PEM\nB.ssl.keystore.location = {own}\nB.ssl.key.password = {SECRET}\n"
        "B.ssl.endpoint.identification.algorithm =\n"
    )
    assert {name.removeprefix("kafka.ssl."): value for name, value in found.items() if ".ssl." in name} == {
        "truststore.type": "PEM",
        "truststore.certificates": "\n".join(CERTIFICATES),
        "keystore.type": "PEM",
        "keystore.key": locked,
        "keystore.certificate.chain": "\n".join(CERTIFICATES),
        "key.password": SECRET,
        "endpoint.identification.algorithm": "",
    }


def test_without_tls_no_store_is_read() -> None:
    found = options("B.ssl.truststore.type = PEM\nB.ssl.truststore.location = /nowhere.pem\n")
    assert not any(".ssl." in name for name in found)


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (None, "cannot be read: No such file or directory"),
        ("nothing", "cannot be used: holds no CERTIFICATE"),
        (KEY, "cannot be used: holds no CERTIFICATE, only PRIVATE KEY"),
    ],
)
def test_a_store_without_what_is_needed_names_the_key(tmp_path: Path, content: str | None, wrong: str) -> None:
    path = tmp_path / "trust.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        options(f"B.security.protocol = SSL\nB.ssl.truststore.type = PEM\nB.ssl.truststore.location = {path}\n")
    assert caught.value.key == "B.ssl.truststore.location"
    assert caught.value.wrong == wrong


def test_a_key_that_java_cannot_read_is_written_as_pkcs8(tmp_path: Path) -> None:
    own = make_key("client")
    path = tmp_path / "own.pem"
    path.write_bytes(own.traditional_pem() + own.certificate_pem())
    found = options(f"B.security.protocol = SSL\nB.ssl.keystore.type = PEM\nB.ssl.keystore.location = {path}\n")
    key = found["kafka.ssl.keystore.key"]
    assert key.startswith("-----BEGIN PRIVATE KEY-----")
    assert key.encode() == own.pem()


def test_a_key_without_a_password_goes_along_without_one(tmp_path: Path) -> None:
    own = make_key("client")
    path = tmp_path / "own.pem"
    path.write_bytes(own.pem() + own.certificate_pem())
    found = options(
        f"B.security.protocol = SSL\nB.ssl.keystore.type = PEM\nB.ssl.keystore.location = {path}\n"
        f"B.ssl.key.password = {SECRET}\n"
    )
    assert found["kafka.ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----")
    assert "kafka.ssl.key.password" not in found, "Java would decrypt the key, which is not encrypted"


def test_a_java_store_goes_along_as_pem(tmp_path: Path) -> None:
    own = make_key("client")
    path = tmp_path / "own.p12"
    path.write_bytes(own.pkcs12(SECRET))
    found = options(
        f"B.security.protocol = SSL\nB.ssl.keystore.type = PKCS12\nB.ssl.keystore.location = {path}\n"
        f"B.ssl.keystore.password = {SECRET}\nB.ssl.truststore.type = PKCS12\nB.ssl.truststore.location = {path}\n"
        f"B.ssl.truststore.password = {SECRET}\nB.ssl.enabled.protocols = TLSv1.2\n"
    )
    assert found["kafka.ssl.keystore.type"] == found["kafka.ssl.truststore.type"] == "PEM"
    assert found["kafka.ssl.keystore.certificate.chain"] == own.certificate_pem().decode()
    assert found["kafka.ssl.truststore.certificates"] == own.certificate_pem().decode()
    assert "kafka.ssl.keystore.password" not in found
    assert found["kafka.ssl.enabled.protocols"] == "TLSv1.2"
