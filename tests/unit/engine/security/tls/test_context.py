"""SSL contexts of Kafka's keys, by handshakes in memory: trust, client keys, names, versions, suites, rotated files."""

import ssl
from pathlib import Path

import pytest

from engine.config.secrets import handshake_options
from engine.security.settings import BadSecurity, SecuritySettings
from engine.security.tls.context import tls_context
from engine.security.tls.protocols import openssl_name
from tests.harness.stores import OwnKey, jks, make_key, trust_pkcs12
from tests.unit.engine.config_files import mirror

PASSWORD = "open sesame"
AUTHORITY = make_key("authority")
SERVER, CLIENT = make_key("server", AUTHORITY), make_key("client", AUTHORITY)
STRANGER, WEAK = make_key("stranger"), make_key("weak", rsa_bits=1024)


def settings(folder: Path, own: OwnKey | None = None, *trust: OwnKey, **more: str) -> SecuritySettings:
    """Write stores in Java's formats, and name them."""
    found = {f"ssl.{name.replace('_', '.')}": value for name, value in more.items()}
    if own is not None:
        (folder / "own.jks").write_bytes(jks(PASSWORD, ("me", own, PASSWORD)))
        found |= {"ssl.keystore.location": str(folder / "own.jks"), "ssl.keystore.password": PASSWORD}
    if trust:
        (folder / "trust.p12").write_bytes(trust_pkcs12(PASSWORD, *trust))
        found |= {"ssl.truststore.location": str(folder / "trust.p12"), "ssl.truststore.password": PASSWORD}
    return SecuritySettings(found)


def server(folder: Path, own: OwnKey, *, wants: OwnKey | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    path = folder / "server.pem"
    path.write_bytes(own.pem() + own.certificate_pem())
    context.load_cert_chain(path)
    if wants is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=wants.certificate_der())
    return context


def shake(client: ssl.SSLContext, broker: ssl.SSLContext, host: str = "127.0.0.1") -> ssl.SSLObject:
    """Do a handshake in memory; return the server's side."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(down, up, server_hostname=host)
    theirs = broker.wrap_bio(up, down, server_side=True)
    for _ in range(6):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    theirs.do_handshake()
    return theirs


def test_both_sides_prove_who_they_are(tmp_path: Path) -> None:
    client = tls_context(settings(tmp_path, CLIENT, AUTHORITY))
    side = shake(client, server(tmp_path, SERVER, wants=AUTHORITY))
    assert side.getpeercert(binary_form=True) == CLIENT.certificate_der()
    assert side.version() == "TLSv1.3"


def test_what_the_truststore_has_is_trusted_by_itself(tmp_path: Path) -> None:
    client = tls_context(settings(tmp_path, None, SERVER))
    shake(client, server(tmp_path, SERVER))


@pytest.mark.parametrize("trust", [STRANGER, None], ids=["another authority", "those of the system"])
def test_a_broker_that_nobody_vouches_for_is_refused(tmp_path: Path, trust: OwnKey | None) -> None:
    client = tls_context(settings(tmp_path, None, *([trust] if trust else [])))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(client, server(tmp_path, SERVER))


def test_the_name_of_a_broker_is_checked_unless_the_key_is_empty(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'elsewhere'"):
        shake(tls_context(settings(tmp_path, None, AUTHORITY)), server(tmp_path, SERVER), "elsewhere")
    for algorithm in ("https", "HTTPS"):
        found = settings(tmp_path, None, AUTHORITY, endpoint_identification_algorithm=algorithm)
        assert tls_context(found).check_hostname
    lax = tls_context(settings(tmp_path, None, AUTHORITY, endpoint_identification_algorithm=""))
    shake(lax, server(tmp_path, SERVER), "elsewhere")


def test_the_broker_hears_the_name_that_was_asked_for(tmp_path: Path) -> None:
    broker, heard = server(tmp_path, SERVER), []
    broker.sni_callback = lambda _socket, name, _context: heard.append(name)
    shake(tls_context(settings(tmp_path, None, AUTHORITY)), broker, "localhost")
    assert heard == ["localhost"]


def test_a_dot_at_the_end_of_a_name_is_not_a_part_of_it(tmp_path: Path) -> None:
    broker, heard = server(tmp_path, SERVER), []
    broker.sni_callback = lambda _socket, name, _context: heard.append(name)
    shake(tls_context(settings(tmp_path, None, AUTHORITY)), broker, "localhost.")
    assert heard == ["localhost"]


@pytest.mark.parametrize(
    ("more", "version", "suite"),
    [
        ({"enabled_protocols": "TLSv1.2"}, "TLSv1.2", None),
        ({"enabled_protocols": "TLSv1.2,TLSv1.3"}, "TLSv1.3", None),
        ({"enabled_protocols": "SSLv3, TLSv1.2 , TLSv1.3", "protocol": "TLS"}, "TLSv1.3", None),
        ({"protocol": "TLSv1.2"}, "TLSv1.2", None),
        ({"protocol": "tlsv1.2"}, "TLSv1.2", None),
        ({"protocol": "Default"}, "TLSv1.3", None),
        (
            {"cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
            "TLSv1.2",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ),
        ({"cipher_suites": "TLS_AES_256_GCM_SHA384"}, "TLSv1.3", None),
        (
            {"cipher_suites": "TLS_ECDH_RSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
            "TLSv1.2",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ),
        (
            {"cipher_suites": "TLS_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "protocol": "TLSv1.2"},
            "TLSv1.2",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
        ),
    ],
)
def test_versions_and_suites(tmp_path: Path, more: dict[str, str], version: str, suite: str | None) -> None:
    side = shake(tls_context(settings(tmp_path, None, AUTHORITY, **more)), server(tmp_path, SERVER))
    cipher = side.cipher()
    assert side.version() == version
    assert cipher is not None
    assert suite in (None, cipher[0])


@pytest.mark.parametrize(
    ("more", "key", "wrong"),
    [
        ({"enabled_protocols": "TLS1.2"}, "enabled.protocols", "'TLS1.2' is no version of TLS"),
        ({"enabled_protocols": "SSLv3"}, "enabled.protocols", "names only versions that OpenSSL has no more"),
        ({"protocol": "TLSv1.9"}, "protocol", "'TLSv1.9' is no version of TLS"),
        ({"protocol": "TLSv1.2", "enabled_protocols": "TLSv1.3"}, "enabled.protocols", "has no version up to"),
        ({"cipher_suites": "TLS_X"}, "cipher.suites", "names a suite that neither Java nor OpenSSL has: TLS_X"),
        (
            {"cipher_suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA385"},
            "cipher.suites",
            "neither Java nor OpenSSL has: TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA385",
        ),
        ({"cipher_suites": "TLS_ECDH_anon_WITH_RC4_128_SHA"}, "cipher.suites", "names no suite of OpenSSL"),
        (
            {"cipher_suites": "TLS_AES_256_GCM_SHA384", "enabled_protocols": "TLSv1.2"},
            "cipher.suites",
            "leaves no version of TLS",
        ),
        ({"endpoint_identification_algorithm": "ldaps"}, "endpoint.identification.algorithm", "is no way to check"),
    ],
)
def test_what_tls_does_not_have(tmp_path: Path, more: dict[str, str], key: str, wrong: str) -> None:
    with pytest.raises(BadSecurity, match=wrong) as caught:
        tls_context(settings(tmp_path, None, **more))
    assert caught.value.key == f"ssl.{key}"


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_128_CBC_SHA256", "DHE-RSA-AES128-SHA256"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
        ("SSL_RSA_WITH_3DES_EDE_CBC_SHA", "DES-CBC3-SHA"),
        ("TLS_AES_256_GCM_SHA384", ""),
    ],
)
def test_names_of_suites(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl


def test_a_key_and_a_certificate_that_do_not_belong_together(tmp_path: Path) -> None:
    path = tmp_path / "own.pem"
    path.write_bytes(CLIENT.pem() + SERVER.certificate_pem())
    found = SecuritySettings({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)})
    with pytest.raises(BadSecurity, match="its first certificate does not belong to its private key"):
        tls_context(found)
    inline = {"key": CLIENT.pem().decode(), "certificate.chain": SERVER.certificate_pem().decode(), "type": "PEM"}
    with pytest.raises(BadSecurity, match="its first certificate does not belong to its private key") as caught:
        tls_context(SecuritySettings({f"ssl.keystore.{name}": value for name, value in inline.items()}))
    assert caught.value.key == "ssl.keystore.key"


def test_a_key_that_openssl_does_not_take(tmp_path: Path) -> None:
    path = tmp_path / "own.pem"
    path.write_bytes(WEAK.pem() + WEAK.certificate_pem())
    found = SecuritySettings({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)})
    with pytest.raises(BadSecurity, match="cannot be used: OpenSSL says: ee key too small"):
        tls_context(found)


def test_a_store_that_is_rotated_is_used_at_the_next_handshake(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, secret = tmp_path / "own.jks", tmp_path / "secrets.properties"
    path.write_bytes(jks("one", ("me", CLIENT, "one")))
    secret.write_text("password = one\n")
    config = mirror(
        f"B.security.protocol = SSL\nB.ssl.keystore.location = {path}\n"
        f"B.ssl.keystore.password = ${{file:{secret}:password}}\n"
        f"B.ssl.truststore.location = {tmp_path / 'trust.p12'}\nB.ssl.truststore.password = {PASSWORD}\n"
    )
    settings(tmp_path, None, AUTHORITY)
    options, broker = handshake_options(config.clusters["B"], "me"), server(tmp_path, SERVER, wants=AUTHORITY)

    def seen() -> bytes | None:
        context = options.credentials().ssl_context
        assert context is not None
        return shake(context, broker).getpeercert(binary_form=True)

    first = options.credentials().ssl_context
    assert seen() == CLIENT.certificate_der()
    assert options.credentials().ssl_context is first, "nothing has changed"
    renewed = make_key("renewed", AUTHORITY)
    path.write_bytes(jks("two", ("me", renewed, "two")))
    assert seen() == CLIENT.certificate_der(), "the new password is not there yet: the last good one stays"
    secret.write_text("password = two\n")
    assert seen() == renewed.certificate_der()
    (told,) = (record.getMessage() for record in caplog.records)
    assert "6: B.ssl.keystore.location: cannot be used: the password does not open it" in told
    assert told.endswith("the last good login and stores of cluster 'B' stay in use")
    path.unlink()
    assert seen() == seen() == renewed.certificate_der()
    assert len(caplog.records) == 2, "each error is logged once"
