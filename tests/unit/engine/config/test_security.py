"""Security settings: protocols, logins, stores, placeholders; secrets are resolved late and never shown."""

import subprocess
from pathlib import Path

import pytest
from rich.pretty import pretty_repr

from engine.base.errors import ConfigError
from engine.config.secrets import handshake_options
from engine.config.security import HandshakeOptions
from tests.unit.engine.config_files import mirror

LOGIN = 'B.sasl.jaas.config = org.x.ScramLoginModule required username="u" password="p\\\\"w\'";\n'
SCRAM = "B.security.protocol = sasl_plaintext\nB.sasl.mechanism = SCRAM-SHA-512\n"


def shake(extra: str) -> HandshakeOptions:
    return handshake_options(mirror(extra).clusters["B"], "me")


def test_plaintext_by_default() -> None:
    found = shake("")
    assert (found.security_protocol, found.client_id, found.username, found.ssl_context) == (
        "PLAINTEXT",
        "me",
        None,
        None,
    )


def test_scram() -> None:
    found = shake(SCRAM + LOGIN)
    assert (found.security_protocol, found.sasl_mechanism) == ("SASL_PLAINTEXT", "SCRAM-SHA-512")
    assert (found.username, found.password) == ("u", "p\"w'")


def test_a_cluster_wins_over_the_top_level() -> None:
    extra = (
        "security.protocol = SASL_PLAINTEXT\nsasl.mechanism = PLAIN\nsasl.jaas.config = M username=u password='p q';\n"
    )
    config = mirror(extra + "B.security.protocol = PLAINTEXT\n")
    assert handshake_options(config.clusters["A"], "").password == "p q"
    assert handshake_options(config.clusters["B"], "").sasl_mechanism is None


@pytest.mark.parametrize(
    ("extra", "key", "wrong"),
    [
        (SCRAM, "B.sasl.jaas.config", "missing, but security.protocol asks for SASL"),
        ("B.security.protocol = SASL_SSL\n" + LOGIN, "B.sasl.mechanism", "GSSAPI is not supported"),
        ("B.security.protocol = SASL_SSL\nB.sasl.mechanism = X\n" + LOGIN, "B.sasl.mechanism", "X is not supported"),
        ("B.ssl.truststore.location = s.jks\n", "B.ssl.truststore.location", "JKS stores cannot be read, and a store"),
        ("B.ssl.truststore.location = s.pem\n", "B.ssl.truststore.location", "the name is that of a PEM file"),
        ("B.ssl.keystore.location = s.p12\n", "B.ssl.keystore.location", "JKS stores cannot be read, and a store"),
        ("B.ssl.keystore.location = s\nB.ssl.keystore.type = JKS\n", "B.ssl.keystore.type", "JKS stores"),
        (
            "B.security.protocol = SASL_SSL\nB.sasl.mechanism = PLAIN\n" + LOGIN,
            "B.sasl.jaas.config",
            "ScramLoginModule is for SCRAM-SHA-256 or SCRAM-SHA-512, but sasl.mechanism is PLAIN",
        ),
        (
            SCRAM + LOGIN.replace("Scram", "Plain"),
            "B.sasl.jaas.config",
            "PlainLoginModule is for PLAIN, but sasl.mechanism is SCRAM-SHA-",
        ),
        (SCRAM + LOGIN.replace(";", ""), "B.sasl.jaas.config", "has no ; at its end"),
        (
            SCRAM + "B.sasl.jaas.config = x.PlainLoginModule required username=${env:U};\n",
            "B.sasl.jaas.config",
            "Plain",
        ),
        ("B.ssl.keystore.location = s\nB.ssl.keystore.type = PKCS12\n", "B.ssl.keystore.type", "PKCS12 stores"),
    ],
)
def test_what_cannot_work_is_refused_before_connecting(extra: str, key: str, wrong: str) -> None:
    with pytest.raises(ConfigError) as caught:
        mirror(extra)
    assert caught.value.key == key
    assert caught.value.wrong.startswith(wrong)


@pytest.mark.parametrize("jaas", ["nothing;", "M username=u;", "M password=p;"])
def test_a_login_without_a_name_or_password(jaas: str) -> None:
    with pytest.raises(ConfigError, match=r"mm2\.properties:7: B\.sasl\.jaas\.config: has no username"):
        shake(SCRAM + f"B.sasl.jaas.config = {jaas}\n")


def test_what_is_told_of_a_login_and_a_store_is_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"use org\.apache\.kafka\.common\.security\.scram\.ScramLoginModule, or set"):
        mirror(SCRAM + LOGIN.replace("Scram", "Plain"))
    with pytest.raises(ConfigError, match=r"set ssl\.keystore\.type=PEM; openssl pkcs12 -in STORE -nodes"):
        mirror("B.ssl.keystore.location = s.p12\n")
    with pytest.raises(ConfigError, match=r"set ssl\.truststore\.type=PEM; keytool -importkeystore"):
        mirror("B.ssl.truststore.location = s\n")
    assert mirror("B.sasl.jaas.config = leftover\n").flows, "no SASL is asked for"


def test_a_login_behind_a_placeholder_is_judged_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYMIRROR_TEST_WORD", 'x.ScramLoginModule required username="u" password="hunter2"')
    with pytest.raises(ConfigError, match="has no ; at its end") as caught:
        shake(SCRAM + "B.sasl.jaas.config = ${env:RAYMIRROR_TEST_WORD}\n")
    assert "hunter2" not in str(caught.value)


def test_an_empty_password_is_one() -> None:
    assert shake(SCRAM + 'B.sasl.jaas.config = M username="u" password="";\n').password == ""


def test_placeholders_are_resolved_where_they_are_used(tmp_path: Path) -> None:
    (tmp_path / "s.properties").write_text("pw = sesame\n")
    (tmp_path / "user").write_text("ali")
    config = mirror(
        SCRAM
        + f'B.sasl.jaas.config = M username="${{dir:{tmp_path}:user}}"'
        + f' password="${{file:{tmp_path}/s.properties:pw}}";\n'
        "config.providers = dir\n"
        "config.providers.dir.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider\n"
    )
    found = handshake_options(config.clusters["B"], "")
    assert (found.username, found.password) == ("ali", "sesame")
    assert config.warnings == ()
    for value in (found, config, config.clusters["B"]):
        assert "sesame" not in repr(value) + pretty_repr(value)


@pytest.mark.parametrize(
    ("placeholder", "wrong"),
    [
        ("${env:RAYMIRROR_NOT_SET}", "environment variable RAYMIRROR_NOT_SET is not set"),
        ("${file:/nowhere/x:k}", "cannot read /nowhere/x: No such file or directory"),
        ("${directory:/nowhere:k}", "cannot read /nowhere/k: No such file or directory"),
        ("${file:k}", "cannot resolve a placeholder of provider 'file'"),
        ("${vault:a:b}", "cannot resolve a placeholder of provider 'vault'"),
    ],
)
def test_placeholders_that_lead_nowhere(placeholder: str, wrong: str) -> None:
    config = mirror(SCRAM + f"B.sasl.jaas.config = {placeholder}\n")
    with pytest.raises(ConfigError) as caught:
        handshake_options(config.clusters["B"], "")
    assert (caught.value.line, caught.value.wrong) == (7, wrong)


def test_a_key_that_the_file_lacks(tmp_path: Path) -> None:
    (tmp_path / "s.properties").write_text("a = b\n")
    config = mirror(SCRAM + f"B.sasl.jaas.config = ${{file:{tmp_path}/s.properties:pw}}\n")
    with pytest.raises(ConfigError, match="has no key pw; name a key of that file"):
        handshake_options(config.clusters["B"], "")


def test_settings_behind_placeholders_are_judged_when_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYMIRROR_TEST_WORD", "JKS")
    extra = "B.security.protocol = SASL_PLAINTEXT\nB.sasl.mechanism = ${env:RAYMIRROR_TEST_WORD}\n" + LOGIN
    with pytest.raises(ConfigError, match="JKS is not supported"):
        shake(extra)
    stores = (
        "B.security.protocol = SSL\nB.ssl.truststore.location = x\nB.ssl.truststore.type = ${env:RAYMIRROR_TEST_WORD}\n"
    )
    with pytest.raises(ConfigError, match="JKS stores cannot be read"):
        shake(stores)


def certificate(folder: Path) -> Path:
    """Make a key and a certificate of its own in one PEM file."""
    key, pem, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", pem, "-subj", "/CN=x"],
        check=True,
        capture_output=True,
    )
    both.write_text(key.read_text() + pem.read_text())
    return both


@pytest.mark.local
def test_pem_stores(tmp_path: Path) -> None:
    pem = certificate(tmp_path)
    stores = (
        f"B.security.protocol = SSL\nB.ssl.truststore.type = PEM\nB.ssl.truststore.location = {pem}\n"
        f"B.ssl.keystore.type = PEM\nB.ssl.keystore.location = {pem}\n"
    )
    context = shake(stores).ssl_context
    assert context is not None
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1
    lax = shake(stores + "B.ssl.endpoint.identification.algorithm =\n").ssl_context
    assert lax is not None
    assert not lax.check_hostname


@pytest.mark.local
def test_certificates_in_the_file_itself(tmp_path: Path) -> None:
    certificate(tmp_path)
    inline = (tmp_path / "cert.pem").read_text().replace("\n", "\\n")
    context = shake(f"B.security.protocol = SSL\nB.ssl.truststore.certificates = {inline}\n").ssl_context
    assert context is not None
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        ("B.ssl.truststore.location = /nowhere.pem\nB.ssl.truststore.type = PEM\n", "No such file or directory"),
        ("B.ssl.truststore.certificates = nothing\n", "cannot be used"),
        ("B.ssl.keystore.location = /nowhere.pem\nB.ssl.keystore.type = PEM\n", "No such file or directory"),
    ],
)
def test_stores_that_cannot_be_read(store: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        shake("B.security.protocol = SSL\n" + store)
