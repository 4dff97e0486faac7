"""Keys of the HTTP server: defaults, values, refusals, and secrets that no text repeats."""

import pytest

from engine.base.errors import ConfigError
from engine.base.redaction import HIDDEN, own_redacted
from engine.config.config import plain_settings, reread_config
from engine.config.file.properties import parse_properties
from engine.config.http.http_config import secrets_of
from engine.config.http.http_secrets import digest_of_secret, logins_of, tls_context
from engine.config.settings import HttpConfig, HttpUser
from policies.roles import Role
from tests.harness.known_secrets import forget_secrets
from tests.unit.engine.config_files import BASE, mirror

USER = "raymirror.http.users = eve\nraymirror.http.user.eve.password = hunter2\n"
OPEN = "raymirror.http.port = 8083\nraymirror.http.bind = 0.0.0.0\n"


def test_there_is_no_server_unless_the_file_says_so() -> None:
    found = mirror().http
    assert (found.port, found.bind, found.users, found.certificate) == (0, "127.0.0.1", (), "")


def test_every_key_is_read() -> None:
    config = mirror(
        "raymirror.http.port = 8083\n"
        "raymirror.http.bind = ::\n"
        "raymirror.http.nodes = All\n"
        "raymirror.http.users = eve, ci@night\n"
        "raymirror.http.user.eve.password = ${env:EVE}\n"
        "raymirror.http.user.eve.token = ${env:EVE_TOKEN}\n"
        "raymirror.http.user.ci@night.role = Operate\n"
        "raymirror.http.user.ci@night.token = ${env:CI}\n"
        "raymirror.http.tls.certificate = /tls/server.pem\n"
        "raymirror.http.tls.key = /tls/key.pem\n"
        "raymirror.http.tls.key.password = ${env:KEY}\n"
        "raymirror.http.tls.client.ca = /tls/ca.pem\n"
    )
    assert config.http.on_all_nodes
    assert config.http.meaning == (
        8083,
        "::",
        (
            HttpUser(name="eve", role=Role.VIEW, password="${env:EVE}", token="${env:EVE_TOKEN}"),
            HttpUser(name="ci@night", role=Role.OPERATE, token="${env:CI}"),
        ),
        ("/tls/server.pem", "/tls/key.pem", "${env:KEY}", "/tls/ca.pem"),
        config.http.providers,
    )
    assert not [warning for warning in config.warnings if "raymirror." in str(warning)]


def test_one_file_may_hold_certificate_and_key() -> None:
    assert mirror("raymirror.http.tls.certificate = both.pem\n").http.key == "both.pem"


@pytest.mark.parametrize(
    ("lines", "key", "wrong"),
    [
        ("raymirror.http.port = 70000", "raymirror.http.port", "out of range"),
        ("raymirror.http.bind = localhost", "raymirror.http.bind", "is not an IP address"),
        (
            "raymirror.http.port = 8083\nraymirror.http.nodes = all",
            "raymirror.http.bind",
            "127.0.0.1 is the address of one node, and raymirror.http.nodes = all opens the port on all of them",
        ),
        (
            USER + "raymirror.http.port = 1\nraymirror.http.bind = 10.0.0.1\nraymirror.http.nodes = all",
            "raymirror.http.bind",
            "is the address of one node",
        ),
        ("raymirror.http.nodes = some", "raymirror.http.nodes", "unknown"),
        (OPEN.replace("0.0.0.0", "node"), "raymirror.http.bind", "node lets other machines in"),
        (OPEN, "raymirror.http.bind", "lets other machines in, and raymirror.http.users names nobody"),
        ("raymirror.http.users = a:b", "raymirror.http.users", "not allowed"),
        ("raymirror.http.users = a.b", "raymirror.http.users", "not allowed"),
        ("raymirror.http.users = eve", "raymirror.http.user.eve.password", "missing"),
        (USER + "raymirror.http.user.eve.token =", "raymirror.http.user.eve.token", "empty"),
        (USER + "raymirror.http.user.eve.role = root", "raymirror.http.user.eve.role", "unknown"),
        ("raymirror.http.tls.key = k.pem", "raymirror.http.tls.key", "set without raymirror.http.tls.certificate"),
        ("raymirror.http.tls.client.ca = c.pem", "raymirror.http.tls.client.ca", "set without"),
        ("raymirror.http.tls.key.password = hunter2", "raymirror.http.tls.key.password", "set without"),
        (
            "raymirror.metrics.port = 9\nraymirror.http.port = 9",
            "raymirror.http.port",
            "raymirror.metrics.port already",
        ),
        (USER + "raymirror.http.user.bob.password = hunter2", "raymirror.http.user.bob.password", "no such key"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(lines: str, key: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong) as refused:
        mirror(f"{lines}\n")
    assert key in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.0.1", "::1"])
def test_a_loopback_address_needs_no_users(address: str) -> None:
    assert mirror(f"raymirror.http.port = 8083\nraymirror.http.bind = {address}\n").http.users == ()


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "node"])
def test_all_nodes_listen_at_an_address_that_each_has(address: str) -> None:
    text = OPEN.replace("0.0.0.0", address) + USER + "raymirror.http.nodes = all\n"
    assert (mirror(text).http.bind, mirror(text).http.on_all_nodes) == (address, True)


def test_the_other_nodes_are_no_reason_to_open_the_port_again() -> None:
    one = mirror(OPEN + USER).http
    assert one.meaning == mirror(OPEN + USER + "raymirror.http.nodes = all\n").http.meaning


def test_clear_text_in_the_network_is_a_warning() -> None:
    (warning,) = [one for one in mirror(OPEN + USER).warnings if one.key == "raymirror.http.bind"]
    assert "clear text" in warning.what
    with_tls = mirror(OPEN + USER + "raymirror.http.tls.certificate = c.pem\n")
    assert not [one for one in with_tls.warnings if one.key == "raymirror.http.bind"]


def test_secrets_are_resolved_only_when_they_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    config = mirror(
        "raymirror.http.users = eve, ci\n"
        "raymirror.http.user.eve.password = ${env:EVE}\nraymirror.http.user.ci.token = t0ken\n"
    )
    with pytest.raises(ConfigError, match="EVE is not set"):
        logins_of(config.http)
    monkeypatch.setenv("EVE", "hunter2")
    eve, ci = logins_of(config.http)
    assert (eve.password, eve.token, eve.role) == (digest_of_secret("hunter2"), None, Role.VIEW)
    assert (ci.password, ci.token) == (None, digest_of_secret("t0ken"))
    monkeypatch.setenv("EVE", " ")
    with pytest.raises(ConfigError, match="empty"):
        logins_of(config.http)


def test_no_text_of_a_configuration_has_a_secret() -> None:
    config = mirror(USER)
    assert "hunter2" not in repr(config.http) + repr(config.http.users) + repr(logins_of(config.http))
    settings = plain_settings(parse_properties(BASE + USER, "f"))
    assert "raymirror.http.users" in settings
    assert "hunter2" not in str(settings)
    assert secrets_of(config.http) == {"raymirror.http.user.eve.password": "hunter2"}


def test_a_password_that_an_edit_removed_stops_no_actor_and_lets_nobody_in() -> None:
    config = reread_config(parse_properties(BASE + OPEN + "raymirror.http.users = eve\n", "f"))
    assert config.http.users == (HttpUser(name="eve"),)
    assert [(one.password, one.token) for one in logins_of(config.http)] == [(None, None)]


def test_where_a_key_is_in_the_file_changes_nothing() -> None:
    assert mirror(USER).http.meaning == mirror(f"\n\n{USER}").http.meaning
    assert mirror(USER).http != mirror(f"\n\n{USER}").http


def test_without_a_certificate_there_is_no_tls() -> None:
    assert tls_context(HttpConfig()) is None


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: object) -> None:
    config = mirror(f"raymirror.http.tls.certificate = {tmp_path}/none.pem\n").http
    with pytest.raises(ConfigError, match="cannot be used: No such file"):
        tls_context(config)


def test_passwords_and_tokens_are_hidden_in_texts_once_they_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVE_TOKEN", "planted-token-of-eve")
    forget_secrets()
    logins_of(mirror(USER + "raymirror.http.user.eve.token = ${env:EVE_TOKEN}\n").http)
    assert own_redacted("hunter2 planted-token-of-eve") == f"{HIDDEN} {HIDDEN}"
    forget_secrets()
