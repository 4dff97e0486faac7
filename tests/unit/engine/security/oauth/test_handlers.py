"""Logins by tokens as files of users ask for them, against a token server: Kafka's keys and Strimzi's options."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from engine.base.errors import ConfigError
from engine.config.secrets import handshake_options
from engine.security.mechanisms import java_login
from engine.security.oauth.endpoint import EndpointRules, TokenEndpoint
from engine.security.oauth.token import claims_of
from engine.security.sasl.jaas import one_login
from engine.security.sasl.login import LoginFailed
from engine.security.settings import BadSecurity, SecuritySettings
from engine.security.tls.context import tls_context
from tests.harness.stores import make_key, trust_pkcs12
from tests.harness.token_server import CLIENT_ID, ISSUER, SECRET, TokenServer, serving
from tests.unit.engine.config_files import mirror

pytestmark = pytest.mark.local

KAFKA = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{KAFKA}.OAuthBearerLoginModule required"
STRIMZI = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
CLIENT_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
Settings = dict[str, str]


def no_tls() -> ssl.SSLContext:
    return tls_context(SecuritySettings({}))


@contextmanager
def answering(answer: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """Give one answer on a port of this machine, whatever is asked; yield the port, and what was asked."""
    asked: list[bytes] = []

    def answered(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            asked.append(connection.recv(65536))
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answered, args=(listener,))
        thread.start()
        yield listener.getsockname()[1], asked
        thread.join()


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with serving(TokenServer(client_key=CLIENT_KEY.public_key())) as served:
        yield served


def kafka(server: TokenServer, options: str = "", **more: str) -> Settings:
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{MODULE} {options};",
        "sasl.login.callback.handler.class": f"{KAFKA}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": server.url,
        **{f"sasl.{name.replace('_', '.')}": value for name, value in more.items()},
    }


def strimzi(server: TokenServer, options: str, with_endpoint: bool = True) -> Settings:
    endpoint = f'oauth.token.endpoint.uri="{server.url}"' if with_endpoint else ""
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{MODULE} {endpoint} {options};",
        "sasl.login.callback.handler.class": STRIMZI,
    }


def message(settings: Settings) -> str:
    """Return the first message of a login by a file with these settings."""
    lines = "".join(f"B.{key} = {value}\n".replace("\\", "\\\\") for key, value in settings.items())
    config = mirror(f"B.security.protocol = SASL_PLAINTEXT\n{lines}")
    login = handshake_options(config.clusters["B"], "me").credentials().login
    assert login is not None
    return next(login.exchange("h")).decode()


def subject(settings: Settings) -> str:
    """Return who the token of a login stands for."""
    token = message(settings).partition("Bearer ")[2].partition("\x01")[0]
    return str(claims_of(token)["sub"])


def test_client_credentials_in_keys_and_in_the_login_module(server: TokenServer) -> None:
    by_keys = {
        "oauthbearer_client_credentials_client_id": CLIENT_ID,
        "oauthbearer_client_credentials_client_secret": SECRET,
    }
    assert subject(kafka(server, **by_keys, oauthbearer_scope="all of it")) == CLIENT_ID
    assert server.asked[-1] == {"grant_type": "client_credentials", "scope": "all of it"}
    said = f'clientId="{CLIENT_ID}" clientSecret="{SECRET}" scope="s" extension_logicalCluster="lkc-1"'
    found = kafka(server, said)
    found["sasl.login.callback.handler.class"] = f"{KAFKA}.secured.OAuthBearerLoginCallbackHandler"
    assert message(found).endswith("\x01logicalCluster=lkc-1\x01\x01")
    assert server.asked[-1]["scope"] == "s"
    assert subject(kafka(server, 'clientId="wrong" clientSecret="wrong"', **by_keys)) == CLIENT_ID, "keys win"


def test_assertions(server: TokenServer, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key.write_bytes(CLIENT_KEY.private_bytes(*pem))
    claims = {
        "oauthbearer_assertion_private_key_file": str(key),
        "oauthbearer_assertion_claim_aud": ISSUER,
        "oauthbearer_assertion_claim_iss": CLIENT_ID,
        "oauthbearer_assertion_claim_sub": "asserted",
    }
    retriever = {"oauthbearer_jwt_retriever_class": f"{KAFKA}.JwtBearerJwtRetriever"}
    assert subject(kafka(server, **retriever, **claims, oauthbearer_scope="s")) == "asserted"
    assert server.asked[-1].keys() == {"grant_type", "assertion", "scope"}
    assert subject(kafka(server, **claims, oauthbearer_client_credentials_client_id=CLIENT_ID)) == "asserted"
    assert server.asked[-1].keys() == {"grant_type", "client_assertion", "client_assertion_type", "client_id"}


def test_a_token_in_a_file_that_is_rotated(server: TokenServer, tmp_path: Path) -> None:
    path = tmp_path / "a token"
    path.write_text(server.token("one"))
    found = kafka(server)
    found["sasl.oauthbearer.token.endpoint.url"] = path.as_uri()
    assert subject(found) == "one"
    path.write_text(server.token("two"))
    assert subject(found) == "two", "this login is a new one"
    assert server.asked == []


def test_the_default_handler_makes_unsecured_tokens(server: TokenServer) -> None:
    found = kafka(server, 'unsecuredLoginStringClaim_sub="alice"')
    del found["sasl.login.callback.handler.class"]
    assert subject(found) == "alice"
    found = kafka(server, f'clientId="{CLIENT_ID}" clientSecret="{SECRET}"')
    del found["sasl.login.callback.handler.class"]
    with pytest.raises(ConfigError, match=r"names nobody.*set sasl\.login\.callback\.handler\.class"):
        message(found)


@pytest.mark.parametrize(
    ("options", "who", "asked"),
    [
        (f'oauth.client.id="{CLIENT_ID}" oauth.client.secret="{SECRET}" oauth.scope="s"', CLIENT_ID, {"scope": "s"}),
        (
            f'oauth.client.id="{CLIENT_ID}" oauth.client.secret="{SECRET}" oauth.audience="a"',
            CLIENT_ID,
            {"audience": "a"},
        ),
        (
            'oauth.client.id="me" oauth.refresh.token="refresh-me"',
            "me",
            {"refresh_token": "refresh-me", "client_id": "me"},
        ),
        (
            'oauth.client.id="me" oauth.password.grant.username="alice" oauth.password.grant.password="wonder"',
            "alice",
            {"username": "alice", "password": "wonder", "client_id": "me"},
        ),
    ],
    ids=["a secret", "an audience", "a refresh token", "a password"],
)
def test_strimzis_options(server: TokenServer, options: str, who: str, asked: Settings) -> None:
    assert subject(strimzi(server, options)) == who
    assert asked.items() <= server.asked[-1].items()


def test_strimzis_options_that_name_files(server: TokenServer, tmp_path: Path) -> None:
    secret, token = tmp_path / "secret", tmp_path / "token"
    secret.write_text(f"{SECRET}\n")
    token.write_text(server.token("given"))
    named = f'oauth.client.id="{CLIENT_ID}" oauth.client.secret.location="{secret}" oauth.sasl.extension.x="y"'
    assert message(strimzi(server, named)).endswith("\x01x=y\x01\x01")
    assert subject(strimzi(server, f'oauth.access.token.location="{token}"', with_endpoint=False)) == "given"
    token.write_text("wonder")
    by_password = f'oauth.password.grant.username="alice" oauth.password.grant.password.location="{token}"'
    assert subject(strimzi(server, f'oauth.client.id="me" {by_password}')) == "alice"
    with pytest.raises(ConfigError, match=r"oauth\.refresh\.token\.location does not exist"):
        message(strimzi(server, f'oauth.client.id="x" oauth.refresh.token.location="{tmp_path / "nowhere"}"'))


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ('oauth.client.secret="hunter2"', "has no oauth.client.id"),
        ('oauth.client.id.location="hunter2" oauth.client.secret="hunter2"', "has no oauth.client.id"),
        ('oauth.client.id="x" oauth.password.grant.username.location="hunter2"', "has neither a secret nor a token"),
        ('oauth.client.id="x"', "has neither a secret nor a token"),
    ],
)
def test_strimzis_options_that_say_too_little(server: TokenServer, options: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong) as caught:
        message(strimzi(server, options))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "wrong"),
    [
        (
            "sasl.login.callback.handler.class",
            "com.acme.Tokens",
            "cannot run here; use OAuthBearerLoginCallbackHandler",
        ),
        ("sasl.login.callback.handler.class", "x.GcpLoginCallbackHandler", "set sasl.mechanism = PLAIN"),
        ("sasl.login.callback.handler.class", "CustomAuthenticateCallbackHandler", "login.microsoftonline.com"),
        ("sasl.oauthbearer.jwt.retriever.class", "com.acme.Retriever", "names a Java class that cannot run here"),
        ("sasl.oauthbearer.jwt.validator.class", "com.acme.Validator", "names a Java class that cannot run here"),
        ("sasl.oauthbearer.token.endpoint.url", "ftp://h/x", "is no address of a token endpoint"),
        ("sasl.oauthbearer.token.endpoint.url", "http://h:port/hunter2", "is no address of a token endpoint"),
        ("sasl.oauthbearer.token.endpoint.url", "http://a..b/hunter2", "is no address of a token endpoint"),
        ("sasl.oauthbearer.token.endpoint.url", f"http://{'a' * 70}/hunter2", "is no address of a token endpoint"),
        (
            "sasl.oauthbearer.token.endpoint.url",
            "http://me:hunter2@h/x",
            "has a user name or a password before the host",
        ),
        ("sasl.oauthbearer.client.credentials.client.secret", "", "missing; set it, or the option clientSecret"),
        ("sasl.login.connect.timeout.ms", "soon", "is no number"),
        ("sasl.jaas.config", f'{MODULE} clientId="x" ssl.truststore.location="s.pem";', "its option ssl.truststore"),
    ],
)
def test_what_cannot_work_is_refused(server: TokenServer, key: str, value: str, wrong: str) -> None:
    ids = {"oauthbearer_client_credentials_client_id": "x", "oauthbearer_client_credentials_client_secret": "hunter2"}
    with pytest.raises(ConfigError, match=wrong) as caught:
        message(kafka(server, **ids) | {key: value})
    assert "hunter2" not in str(caught.value)
    assert server.asked == []


def failing(server: TokenServer, *statuses: int) -> LoginFailed:
    server.failures += statuses
    with pytest.raises(LoginFailed) as caught:
        message(kafka(server, f'clientId="{CLIENT_ID}" clientSecret="{SECRET}"', login_retry_backoff_max_ms="300"))
    return caught.value


def test_a_refused_client_is_told_at_once_and_without_its_secret(server: TokenServer) -> None:
    with pytest.raises(LoginFailed) as caught:
        message(kafka(server, 'clientId="mirror" clientSecret="hunter2"'))
    told = str(caught.value)
    assert told.endswith("/token answers 401: invalid_client: as the test wants it")
    assert "hunter2" not in told
    assert not caught.value.may_pass
    assert len(server.asked) == 1


def test_a_server_that_fails_is_asked_again_for_a_while(server: TokenServer) -> None:
    server.failures += [503, 500]
    assert subject(kafka(server, f'clientId="{CLIENT_ID}" clientSecret="{SECRET}"')) == CLIENT_ID
    assert len(server.asked) == 3
    failure = failing(server, *[503] * 1000)
    assert failure.may_pass
    assert "answers 503: temporarily_unavailable" in str(failure)


def test_an_endpoint_where_nobody_listens() -> None:
    gone = TokenServer()
    with serving(gone):
        url = gone.url
    endpoint = TokenEndpoint(url, EndpointRules(most_s=0.0), lambda: tls_context(SecuritySettings({})))
    with pytest.raises(LoginFailed, match=r"the token endpoint http://127\.0\.0\.1:.*Connection refused") as caught:
        endpoint.ask({}, {})
    assert caught.value.may_pass


@contextmanager
def dripping(begin: bytes) -> Iterator[int]:
    """Send a byte now and then on a port of this machine, until the other side has enough of it."""

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.sendall(begin)
            while True:
                connection.sendall(b" ")
                time.sleep(0.01)  # the fault itself, not a wait of the test

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("scheme", "begin"),
    [
        ("http", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"),
        ("http", b"HTTP/1.1 200 OK\r\nA: "),
        ("https", b"\x16\x03\x03\x40\x00"),
    ],
    ids=["body", "head", "handshake"],
)
def test_an_endpoint_that_drips_bytes_is_given_up(scheme: str, begin: bytes) -> None:
    """Each byte comes within the time-out of a read; the answer would take for hours, and hold a thread."""
    with dripping(begin) as port:
        rules = EndpointRules(connect_s=0.2, read_s=0.2, most_s=0.0)
        endpoint = TokenEndpoint(f"{scheme}://127.0.0.1:{port}/token", rules, no_tls)
        with pytest.raises(LoginFailed, match="no answer in time") as caught:
            endpoint.ask({}, {})
    assert caught.value.may_pass


def test_a_store_for_the_endpoint_that_cannot_be_read(server: TokenServer, tmp_path: Path) -> None:
    options = f'clientId="x" clientSecret="y" ssl.truststore.location="{tmp_path / "none.jks"}"'
    settings = kafka(server, options) | {"sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token"}
    with pytest.raises(LoginFailed, match=r"sasl\.jaas\.config: its option ssl\.truststore\.location: cannot be read"):
        message(settings)


@pytest.mark.parametrize("answer", [b"[" * 100_000, b"[1]", b"<html>"])
def test_an_answer_that_is_no_object(answer: bytes) -> None:
    with answering(b"HTTP/1.0 200 OK\r\n\r\n" + answer) as (port, _asked):
        endpoint = TokenEndpoint(f"http://127.0.0.1:{port}/token", EndpointRules(most_s=0.0), no_tls)
        with pytest.raises(LoginFailed, match="gives no JSON object"):
            endpoint.ask({}, {})


def test_an_error_of_the_endpoint_is_one_line() -> None:
    said = json.dumps({"error": "invalid_client", "error_description": "one\n2026-01-01 ERROR two"}).encode()
    with answering(b"HTTP/1.0 401 No\r\n\r\n" + said) as (port, _asked):
        endpoint = TokenEndpoint(f"http://127.0.0.1:{port}/token", EndpointRules(most_s=0.0), no_tls)
        with pytest.raises(LoginFailed, match=r"answers 401: invalid_client: one 2026-01-01 ERROR two$"):
            endpoint.ask({}, {})


def test_the_proxy_of_the_environment_gets_its_own_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "")
    endpoint = TokenEndpoint("http://issuer.test/token", EndpointRules(most_s=0.0), no_tls)
    with answering(b"HTTP/1.0 407 Proxy Authentication Required\r\n\r\n") as (port, asked):
        monkeypatch.setenv("http_proxy", f"http://me:p%40ss@127.0.0.1:{port}")
        with pytest.raises(LoginFailed, match="the proxy of the environment answers 407") as caught:
            endpoint.ask({}, {})
    assert "p%40ss" not in str(caught.value)
    assert b"Proxy-Authorization: Basic bWU6cEBzcw==" in asked[0]
    monkeypatch.setenv("http_proxy", "http://me:hunter2@127.0.0.1:none")
    with pytest.raises(LoginFailed, match="HTTP_PROXY of the environment is no address") as caught:
        endpoint.ask({}, {})
    assert "hunter2" not in str(caught.value)


def test_an_endpoint_behind_tls_with_an_authority_in_the_login_module(tmp_path: Path) -> None:
    own, chain, trust = make_key("issuer"), tmp_path / "issuer.pem", tmp_path / "trust.p12"
    chain.write_bytes(own.pem() + own.certificate_pem())
    trust.write_bytes(trust_pkcs12("changeit", own))
    ids = f'clientId="{CLIENT_ID}" clientSecret="{SECRET}"'
    with serving(TokenServer(), chain) as server:
        trusting = f'{ids} ssl.truststore.location="{trust}" ssl.truststore.password="changeit"'
        assert subject(kafka(server, trusting)) == CLIENT_ID
        own_options = f'oauth.ssl.truststore.location="{trust}" oauth.ssl.truststore.password="changeit"'
        assert (
            subject(strimzi(server, f'oauth.client.id="{CLIENT_ID}" oauth.client.secret="{SECRET}" {own_options}'))
            == CLIENT_ID
        )
        with pytest.raises(LoginFailed, match="its certificate is refused") as caught:
            message(kafka(server, ids))
        assert not caught.value.may_pass


def test_java_gets_the_same_login(server: TokenServer) -> None:
    keys = {
        "oauthbearer_client_credentials_client_id": CLIENT_ID,
        "oauthbearer_client_credentials_client_secret": SECRET,
        "oauthbearer_header_urlencode": "true",
        "login_connect_timeout_ms": "5000",
    }
    found = java_login(SecuritySettings(kafka(server, 'extension_x="y"', **keys)))
    assert found["sasl.login.callback.handler.class"].endswith(".secured.OAuthBearerLoginCallbackHandler")
    assert found["sasl.oauthbearer.token.endpoint.url"] == server.url
    assert found["sasl.login.connect.timeout.ms"] == "5000"
    options = one_login(found["sasl.jaas.config"]).options
    assert options == {"clientId": CLIENT_ID, "clientSecret": "of+the+client%2F%2B%3D", "extension_x": "y"}
    ids = f'oauth.client.id="{CLIENT_ID}" oauth.client.secret="{SECRET}"'
    options = one_login(java_login(SecuritySettings(strimzi(server, ids)))["sasl.jaas.config"]).options
    assert options == {"clientId": CLIENT_ID, "clientSecret": SECRET}
    for settings in (
        strimzi(server, f'{ids} oauth.audience="a"'),
        kafka(server, ids, oauthbearer_assertion_file="/x"),
    ):
        with pytest.raises(BadSecurity, match="Spark"):
            java_login(SecuritySettings(settings))


def test_the_server_of_these_tests_signs_what_brokers_can_verify(server: TokenServer) -> None:
    (key,) = server.keys()["keys"]
    assert key.keys() == {"kty", "alg", "use", "kid", "n", "e"}
    assert json.loads(json.dumps(claims_of(server.token("x"))))["exp"] > time.time()
