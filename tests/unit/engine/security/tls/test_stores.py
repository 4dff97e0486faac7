"""Key stores of every format: what they hold, their passwords, and errors that name the key and no secret."""

from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.security.settings import BadSecurity, SecuritySettings
from engine.security.tls.jks import read_java_store
from engine.security.tls.keys import stamp
from engine.security.tls.pem import locked_text
from engine.security.tls.store import BadStore, KeyEntry
from engine.security.tls.stores import as_pem, client_key, trusted
from tests.harness.pkcs12_keys import pkcs12_of
from tests.harness.stores import jks, make_key, trust_pkcs12

PASSWORD, KEY_PASSWORD = "öpen sesame", "0f the key"
OWN, OTHER = make_key("own"), make_key("other")
SIGNED = make_key("signed", OTHER)


def keystore(path: Path, **more: str) -> SecuritySettings:
    found = {
        "ssl.keystore.location": str(path),
        **{f"ssl.{name.replace('_', '.')}": value for name, value in more.items()},
    }
    return SecuritySettings(found)


def truststore(path: Path, **more: str) -> SecuritySettings:
    settings = {f"ssl.truststore.{name}": value for name, value in more.items()}
    return SecuritySettings({"ssl.truststore.location": str(path), **settings})


def written(folder: Path, data: bytes) -> Path:
    path = folder / "store"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "settings",
    [{"keystore_password": PASSWORD}, {"keystore_password": PASSWORD, "key_password": KEY_PASSWORD}],
    ids=["one password", "a password of the key"],
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_key_of_a_jks_store(tmp_path: Path, settings: dict[str, str], version: int) -> None:
    of_key = settings.get("key_password", PASSWORD)
    path = written(tmp_path, jks(PASSWORD, ("ca", OTHER), ("me", OWN, of_key), version=version))
    found = client_key(keystore(path, **settings))
    assert found is not None
    assert (found.alias, found.key, found.chain) == ("me", OWN.der(), (OWN.certificate_der(),))


def test_certificates_of_a_jks_store_need_no_password(tmp_path: Path) -> None:
    path = written(tmp_path, jks(PASSWORD, ("ca", OTHER), ("me", OWN, KEY_PASSWORD)))
    both = (OTHER.certificate_der(), OWN.certificate_der())
    assert trusted(truststore(path)) == trusted(truststore(path, password=PASSWORD)) == both


def test_a_key_of_a_pkcs12_store_whatever_the_type_says(tmp_path: Path) -> None:
    path = written(tmp_path, SIGNED.pkcs12(PASSWORD, OWN, OTHER))
    for kind in ("JKS", "PKCS12"):
        found = client_key(keystore(path, keystore_type=kind, keystore_password=PASSWORD))
        assert found is not None
        assert found.key == SIGNED.der()
        assert found.chain == (SIGNED.certificate_der(), OTHER.certificate_der()), "what did not sign it is left out"


def test_certificates_of_a_pkcs12_store(tmp_path: Path) -> None:
    path = written(tmp_path, trust_pkcs12(PASSWORD, OWN, OTHER))
    found = trusted(truststore(path, type="PKCS12", password=PASSWORD))
    assert found == (OWN.certificate_der(), OTHER.certificate_der())


@pytest.mark.parametrize("password", [None, KEY_PASSWORD])
def test_a_key_of_a_pem_file_and_of_the_configuration_itself(tmp_path: Path, password: str | None) -> None:
    key, chain = SIGNED.pem(password), SIGNED.certificate_pem() + OTHER.certificate_pem()
    own = {} if password is None else {"key_password": password}
    path = written(tmp_path, b"some words\n" + key + chain)
    in_file = client_key(keystore(path, keystore_type="PEM", **own))
    inline = {"ssl.keystore.key": key.decode().replace("\n", "\\n"), "ssl.keystore.certificate.chain": chain.decode()}
    inside = client_key(SecuritySettings({**inline, "ssl.key.password": password or "", "ssl.keystore.type": "PEM"}))
    assert in_file == inside
    assert in_file is not None
    assert (in_file.key, len(in_file.chain)) == (SIGNED.der(), 2)


def test_a_key_of_a_kind_that_no_library_knows(tmp_path: Path) -> None:
    odd = OWN.der().replace(bytes.fromhex("2a8648ce3d0201"), bytes.fromhex("2a8648ce3d0e01"))
    block = f"-----BEGIN PRIVATE KEY-----\n{b64encode(odd).decode()}\n-----END PRIVATE KEY-----\n"
    path = written(tmp_path, block.encode() + OWN.certificate_pem())
    with pytest.raises(BadSecurity, match="has a private key that cannot be read"):
        client_key(keystore(path, keystore_type="PEM"))
    with pytest.raises(BadStore, match="has a private key that cannot be read"):
        locked_text(KeyEntry("me", odd, (OWN.certificate_der(),)), b"x")


def test_a_certificate_of_a_version_that_is_none() -> None:
    odd = OWN.certificate_der().replace(bytes.fromhex("a003020102"), bytes.fromhex("a003020121"))
    block = f"-----BEGIN CERTIFICATE-----\n{b64encode(odd).decode()}\n-----END CERTIFICATE-----\n"
    with pytest.raises(BadSecurity, match="has a certificate that cannot be read"):
        trusted(SecuritySettings({"ssl.truststore.certificates": block, "ssl.truststore.type": "PEM"}))


def test_a_certificate_under_its_old_name() -> None:
    text = OWN.certificate_pem().decode().replace("CERTIFICATE", "X509 CERTIFICATE")
    settings = SecuritySettings({"ssl.truststore.certificates": text, "ssl.truststore.type": "PEM"})
    assert trusted(settings) == (OWN.certificate_der(),)


def test_a_trusted_certificate_of_openssl(tmp_path: Path) -> None:
    """What it is trusted for follows the certificate in its block (X509_CERT_AUX); Kafka reads the certificate only."""
    purposes = bytes.fromhex("300c300a06082b06010505070301")
    block = b64encode(OWN.certificate_der() + purposes).decode()
    text = f"-----BEGIN TRUSTED CERTIFICATE-----\n{block}\n-----END TRUSTED CERTIFICATE-----\n"
    path = written(tmp_path, text.encode() + OTHER.certificate_pem())
    both = SecuritySettings({"ssl.truststore.location": str(path), "ssl.truststore.type": "PEM"})
    assert trusted(both) == (OWN.certificate_der(), OTHER.certificate_der())
    assert "TRUSTED" not in as_pem(both)["ssl.truststore.certificates"]
    cut = SecuritySettings({"ssl.truststore.certificates": text.replace(block, block[:200])})
    with pytest.raises(BadSecurity, match="has a certificate that cannot be read"):
        trusted(cut)


def test_a_name_that_no_file_can_have() -> None:
    settings = SecuritySettings({"ssl.truststore.location": "/a\0b"})
    assert stamp(settings) == ((0, 0, 0),)
    with pytest.raises(BadSecurity, match="cannot be read: its name has a NUL"):
        trusted(settings)


def test_certificates_of_a_pkcs12_store_with_several_keys_are_trusted(tmp_path: Path) -> None:
    path = written(tmp_path, pkcs12_of(PASSWORD, a=OWN, b=OTHER))
    found = trusted(truststore(path, password=PASSWORD))
    assert set(found or ()) == {OWN.certificate_der(), OTHER.certificate_der()}


def test_settings_without_stores() -> None:
    assert client_key(SecuritySettings({})) is None
    assert trusted(SecuritySettings({})) is None


JAVA = {"keystore_password": PASSWORD}


@pytest.mark.parametrize(
    ("data", "settings", "key", "wrong"),
    [
        (jks("x", ("me", OWN, "x")), JAVA, "location", "the password does not open it, or it was changed"),
        (jks(PASSWORD, ("me", OWN, "x")), JAVA, "location", "the password does not open its key"),
        (jks(PASSWORD, ("ca", OWN)), JAVA, "location", "holds no private key"),
        (
            jks(PASSWORD, ("a", OWN, PASSWORD), ("b", OTHER, PASSWORD)),
            JAVA,
            "location",
            r"holds 2 private keys \(a, b\)",
        ),
        (
            pkcs12_of(PASSWORD, a=OWN, b=OTHER),
            JAVA,
            "location",
            r"holds 2 private keys \(a, b\)",
        ),
        (OWN.pkcs12("x"), JAVA, "location", "the password does not open it"),
        (trust_pkcs12(PASSWORD, OWN), JAVA, "location", "holds no private key"),
        (b"nothing", JAVA, "location", "is none of JKS, JCEKS, PKCS12, PEM"),
        (OWN.pem() + OWN.certificate_pem(), JAVA, "location", "is a PEM file, but its type is JKS"),
        (OWN.pkcs12("x"), {"keystore_type": "PEM"}, "type", "is PEM, but the file is a Java key store"),
        (OWN.certificate_pem(), {"keystore_type": "PEM"}, "location", "holds no PRIVATE KEY, only CERTIFICATE"),
        (OWN.pem(), {"keystore_type": "PEM"}, "location", "holds no CERTIFICATE, only PRIVATE KEY"),
        (OWN.pem("x") + OWN.certificate_pem(), {"keystore_type": "PEM"}, "location", "has an encrypted private key"),
        (
            OWN.pem("x") + OWN.certificate_pem(),
            {"keystore_type": "PEM", "key_password": KEY_PASSWORD},
            "location",
            "the password does not open its key",
        ),
    ],
)
def test_a_store_that_cannot_be_used(
    tmp_path: Path, data: bytes, settings: dict[str, str], key: str, wrong: str
) -> None:
    with pytest.raises(BadSecurity, match=wrong) as caught:
        client_key(keystore(written(tmp_path, data), **settings))
    assert caught.value.key == f"ssl.keystore.{key}"
    assert not any(secret in str(caught.value) for secret in (PASSWORD, KEY_PASSWORD))


def test_a_trust_store_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(BadSecurity, match=r"ssl\.truststore\.location: cannot be used: holds no certificate"):
        trusted(truststore(written(tmp_path, jks(PASSWORD))))
    with pytest.raises(BadSecurity, match=r"cannot be opened without a password.*; check ssl\.truststore\.password"):
        trusted(truststore(written(tmp_path, trust_pkcs12(PASSWORD, OWN))))
    with pytest.raises(BadSecurity, match="cannot be read: No such file"):
        trusted(truststore(tmp_path / "nowhere"))


def changed(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


@pytest.mark.parametrize("spoil", [lambda data, at: data[:at], changed], ids=["cut", "changed"])
def test_a_damaged_store_is_refused_wherever_it_is_damaged(spoil: Callable[[bytes, int], bytes]) -> None:
    whole = jks(PASSWORD, ("ca", OTHER), ("me", OWN, PASSWORD))
    for at in range(0, len(whole), 11):
        spoiled = spoil(whole, at)
        with pytest.raises(BadStore):
            read_java_store(spoiled, PASSWORD, PASSWORD)
        try:
            read_java_store(spoiled, None, PASSWORD)  # nothing checks it: only no other error may come
        except BadStore:
            continue
