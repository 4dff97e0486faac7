"""Security settings: protocols, logins, stores, placeholders; secrets are resolved late and never shown."""

import subprocess
from pathlib import Path

import pytest
from rich.pretty import pretty_repr

from engine.base.errors import ConfigError
from engine.config.secrets import handshake_options
from engine.config.security import HandshakeOptions
from engine.security.sasl.plain import PlainLogin
from engine.security.sasl.scram import ScramLogin
from tests.unit.engine.config_files import mirror

LOGIN = 'B.sasl.jaas.config = org.x.ScramLoginModule required username="u" password="p\\\\"w\'";\n'
TLS = "B.security.protocol = SSL\n"
SCRAM = "B.security.protocol = sasl_plaintext\nB.sasl.mechanism = SCRAM-SHA-512\n"


def shake(extra: str) -> HandshakeOptions:
    return handshake_options(mirror(extra).clusters["B"], "me")


def login_of(options: HandshakeOptions) -> tuple[str, str]:
    """Return user name and password of a login by password."""
    login = options.credentials().login
    assert isinstance(login, PlainLogin | ScramLogin)
    return login.user, login._password


def test_plaintext_by_default() -> None:
    found = shake("")
    present = found.credentials()
    assert (found.security_protocol, found.client_id) == ("PLAINTEXT", "me")
    assert (present.login, present.ssl_context) == (None, None)


def test_scram() -> None:
    found = shake(SCRAM + LOGIN)
    assert (found.security_protocol, found.sasl_mechanism) == ("SASL_PLAINTEXT", "SCRAM-SHA-512")
    assert login_of(found) == ("u", "p\"w'")


def test_a_cluster_wins_over_the_top_level() -> None:
    extra = (
        "security.protocol = SASL_PLAINTEXT\nsasl.mechanism = PLAIN\n"
        "sasl.jaas.config = M required username=u password='p q';\n"
    )
    config = mirror(extra + "B.security.protocol = PLAINTEXT\n")
    assert login_of(handshake_options(config.clusters["A"], "")) == ("u", "p q")
    assert handshake_options(config.clusters["B"], "").sasl_mechanism is None


@pytest.mark.parametrize(
    ("extra", "key", "wrong"),
    [
        (SCRAM, "B.sasl.jaas.config", "missing, but security.protocol asks for SASL"),
        (
            "B.security.protocol = SASL_SSL\n" + LOGIN,
            "B.sasl.jaas.config",
            "ScramLoginModule is for SCRAM-SHA-256 or SCRAM-SHA-512, but sasl.mechanism is GSSAPI, Kafka's default",
        ),
        ("B.security.protocol = SASL_SSL\nB.sasl.mechanism = X\n" + LOGIN, "B.sasl.mechanism", "X is not supported"),
        (TLS + "B.ssl.truststore.location = s.pem\n", "B.ssl.truststore.location", "the name is that of a PEM file"),
        (TLS + "B.ssl.keystore.location = s.p12\n", "B.ssl.keystore.location", "a store of type JKS has a password"),
        (TLS + "B.ssl.truststore.location = s\nB.ssl.truststore.type = BCFKS\n", "B.ssl.truststore.type", "BCFKS"),
        (TLS + "B.ssl.keystore.key = k\n", "B.ssl.keystore.key", "set, but ssl.keystore.certificate.chain is missing"),
        (
            TLS + "B.ssl.truststore.certificates = c\nB.ssl.truststore.location = s\n",
            "B.ssl.truststore.certificates",
            "set together with ssl.truststore.location",
        ),
        (
            TLS + "B.ssl.endpoint.identification.algorithm = ldaps\n",
            "B.ssl.endpoint.identification.algorithm",
            "is no way to check a broker's name",
        ),
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
    ],
)
def test_what_cannot_work_is_refused_before_connecting(extra: str, key: str, wrong: str) -> None:
    with pytest.raises(ConfigError) as caught:
        mirror(extra)
    assert caught.value.key == key
    assert caught.value.wrong.startswith(wrong)


@pytest.mark.parametrize("jaas", ["M required;", "M required username=u;", "M required password=p;"])
def test_a_login_without_a_name_or_password(jaas: str) -> None:
    with pytest.raises(ConfigError, match=r"mm2\.properties:7: B\.sasl\.jaas\.config: has no username"):
        shake(SCRAM + f"B.sasl.jaas.config = {jaas}\n")


def test_what_is_told_of_a_login_is_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"use org\.apache\.kafka\.common\.security\.scram\.ScramLoginModule, or set"):
        mirror(SCRAM + LOGIN.replace("Scram", "Plain"))
    assert mirror("B.sasl.jaas.config = leftover\nB.ssl.truststore.location = s.pem\n").flows, "nothing asks for them"


def test_a_login_behind_a_placeholder_is_judged_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYMIRROR_TEST_WORD", 'x.ScramLoginModule required username="u" password="hunter2"')
    with pytest.raises(ConfigError, match="has no ; at its end") as caught:
        shake(SCRAM + "B.sasl.jaas.config = ${env:RAYMIRROR_TEST_WORD}\n")
    assert "hunter2" not in str(caught.value)


def test_an_empty_password_is_one() -> None:
    assert login_of(shake(SCRAM + 'B.sasl.jaas.config = M required username="u" password="";\n')) == ("u", "")


def test_placeholders_are_resolved_where_they_are_used(tmp_path: Path) -> None:
    (tmp_path / "s.properties").write_text("pw = sesame\n")
    (tmp_path / "user").write_text("ali")
    config = mirror(
        SCRAM
        + f'B.sasl.jaas.config = M required username="${{dir:{tmp_path}:user}}"'
        + f' password="${{file:{tmp_path}/s.properties:pw}}";\n'
        "config.providers = dir\n"
        "config.providers.dir.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider\n"
    )
    found = handshake_options(config.clusters["B"], "")
    assert login_of(found) == ("ali", "sesame")
    assert config.warnings == ()
    for value in (found, found.credentials(), found.credentials().login, config, config.clusters["B"]):
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
    monkeypatch.setenv("RAYMIRROR_TEST_WORD", "BCFKS")
    extra = "B.security.protocol = SASL_PLAINTEXT\nB.sasl.mechanism = ${env:RAYMIRROR_TEST_WORD}\n" + LOGIN
    with pytest.raises(ConfigError, match="BCFKS is not supported"):
        shake(extra)
    stores = (
        "B.security.protocol = SSL\nB.ssl.truststore.location = x\nB.ssl.truststore.type = ${env:RAYMIRROR_TEST_WORD}\n"
    )
    with pytest.raises(ConfigError, match="BCFKS stores cannot be read"):
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
    context = shake(stores).credentials().ssl_context
    assert context is not None
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1
    lax = shake(stores + "B.ssl.endpoint.identification.algorithm =\n").credentials().ssl_context
    assert lax is not None
    assert not lax.check_hostname


@pytest.mark.local
def test_certificates_in_the_file_itself(tmp_path: Path) -> None:
    certificate(tmp_path)
    inline = (tmp_path / "cert.pem").read_text().replace("\n", "\\n")
    context = shake(f"{TLS}B.ssl.truststore.certificates = {inline}\n").credentials().ssl_context
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


CLIENTS = ("consumer", "producer", "admin")


def test_what_all_three_clients_of_a_cluster_say_is_the_cluster_s() -> None:
    lines = (SCRAM + LOGIN).splitlines()
    config = mirror("".join(f"{line.replace('B.', f'B.{client}.', 1)}\n" for line in lines for client in CLIENTS))
    assert login_of(handshake_options(config.clusters["B"], "")) == ("u", "p\"w'")
    assert config.warnings == ()
