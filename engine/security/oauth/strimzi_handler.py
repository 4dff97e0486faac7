"""Tokens by the options of Strimzi's OAuth library (JaasClientOauthLoginCallbackHandler) in the login module."""

from collections.abc import Mapping
from pathlib import Path

from engine.base.clock import wall_ms
from engine.security.oauth.assertion import read_secret
from engine.security.oauth.endpoint import access_token
from engine.security.oauth.kafka_handler import basic, java_login, token_endpoint
from engine.security.oauth.keeper import Fetch
from engine.security.oauth.keys import (
    BACKOFF,
    CONNECT_TIMEOUT,
    ENDPOINT,
    READ_TIMEOUT,
)
from engine.security.oauth.token import Token, milliseconds, read_token
from engine.security.sasl.jaas import JAAS, LoginEntry
from engine.security.sasl.login import LoginFailed
from engine.security.settings import BadSecurity, SecuritySettings

_EXTENSION, _TLS = "oauth.sasl.extension.", "oauth.ssl."
_ENDPOINT, _CLIENT_ID, _SECRET = "oauth.token.endpoint.uri", "oauth.client.id", "oauth.client.secret"
_SCOPE, _AUDIENCE, _ACCESS, _REFRESH = "oauth.scope", "oauth.audience", "oauth.access.token", "oauth.refresh.token"
_USER, _PASSWORD = "oauth.password.grant.username", "oauth.password.grant.password"
_ASSERTION, _ASSERTION_TYPE = "oauth.client.assertion", "oauth.client.assertion.type"
_GRANT_TYPE, _IS_JWT = "oauth.client.credentials.grant.type", "oauth.access.token.is.jwt"
_SUBJECT, _MOST_LIFE = "oauth.username.claim", "oauth.max.token.expiry.seconds"
_JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_LOCATION = ".location"
"""An option may name a file with its value instead."""
_TIMES = {
    "oauth.connect.timeout.seconds": (CONNECT_TIMEOUT, 1000),
    "oauth.read.timeout.seconds": (READ_TIMEOUT, 1000),
    "oauth.http.retry.pause.millis": (BACKOFF, 1),
}
"""Options -> Kafka's key, and how many of its milliseconds one unit is."""
_FORM = 'write oauth.client.id="..." oauth.client.secret="..." oauth.token.endpoint.uri="..."'


def read_fetch(_settings: SecuritySettings, entry: LoginEntry) -> Fetch:
    """Return how tokens are fetched: a given token, else a refresh token, a password, a secret, or an assertion.

    Raises BadSecurity.
    """
    options = entry.options
    if _is_set(options, _ACCESS):
        _checked(options, _ACCESS)
        return lambda: _token({"access_token": _value(options, _ACCESS)}, options)
    if _ENDPOINT not in options:
        raise BadSecurity(JAAS, f"has no {_ENDPOINT}", _FORM)
    timed = SecuritySettings(dict(_times(options)))
    endpoint = token_endpoint(timed, options[_ENDPOINT], _tls(options), JAAS)
    _checked(options, _REFRESH, _SECRET, _ASSERTION, _PASSWORD)
    _asked(options)

    def fetch() -> Token:
        return _token(endpoint.ask(*_request(options)), options)

    return fetch


def extensions(entry: LoginEntry) -> dict[str, str]:
    """Return the SASL extensions in the options of a login module."""
    begin = _EXTENSION
    return {name.removeprefix(begin): value for name, value in entry.options.items() if name.startswith(begin)}


def java_settings(settings: SecuritySettings, entry: LoginEntry) -> dict[str, str]:
    """Return the same login for Kafka's own handler, which knows a client id and a secret. Raises BadSecurity."""
    read_fetch(settings, entry)
    options = entry.options
    own = (_ACCESS, _REFRESH, _USER, _ASSERTION, _AUDIENCE)
    if any(_is_set(options, name) for name in own) or not _is_set(options, _SECRET):
        wrong = f"logs in without {_SECRET}, or with {_AUDIENCE}, which Kafka's own login of Spark's client cannot"
        raise BadSecurity(JAAS, wrong, "give Spark's jobs a client id and secret, or run without raymirror.spark")
    same = {"clientId": options[_CLIENT_ID], "clientSecret": _value(options, _SECRET)}
    scope = {"scope": options[_SCOPE]} if _SCOPE in options else {}
    added = {f"extension_{name}": value for name, value in extensions(entry).items()}
    times = SecuritySettings(dict(_times(options)))
    return java_login({**same, **scope, **added, **_tls(options)}, times, **{ENDPOINT: options[_ENDPOINT]})


def _asked(options: Mapping[str, str]) -> None:
    """Refuse options that say of nothing how to get a token. Raises BadSecurity."""
    if not options.get(_USER) and not any(_is_set(options, name) for name in (_REFRESH, _SECRET, _ASSERTION)):
        raise BadSecurity(JAAS, "has neither a secret nor a token nor an assertion", _FORM)
    if not options.get(_CLIENT_ID):
        raise BadSecurity(JAAS, f"has no {_CLIENT_ID}", _FORM)


def _request(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return form and headers. Raises LoginFailed."""
    client_id = options[_CLIENT_ID]
    form = {name: options[key] for name, key in (("scope", _SCOPE), ("audience", _AUDIENCE)) if key in options}
    headers = basic(client_id, _value(options, _SECRET)) if _is_set(options, _SECRET) else {}
    if _is_set(options, _REFRESH):
        return form | {
            "grant_type": "refresh_token",
            "refresh_token": _value(options, _REFRESH),
            "client_id": client_id,
        }, headers
    if options.get(_USER):
        password = _value(options, _PASSWORD) if _is_set(options, _PASSWORD) else ""
        named = {"username": options[_USER], "password": password, "client_id": client_id}
        return form | {"grant_type": "password", **named}, headers
    form["grant_type"] = options.get(_GRANT_TYPE, "client_credentials")
    if headers:
        return form, headers
    kind = options.get(_ASSERTION_TYPE, _JWT_BEARER)
    named = {"client_id": client_id, "client_assertion": _value(options, _ASSERTION), "client_assertion_type": kind}
    return form | named, {}


def _token(answer: Mapping[str, object], options: Mapping[str, str]) -> Token:
    """Return the token of an answer; one that is no JWT lives for as long as the answer says. Raises LoginFailed."""
    value, now_ms = access_token(answer), wall_ms()
    most_ms = milliseconds(_seconds(options.get(_MOST_LIFE, ""))) or 0
    if options.get(_IS_JWT, "true").lower() == "true":
        found = read_token(value, now_ms, options.get(_SUBJECT, "sub"))
    else:
        said_ms = milliseconds(answer.get("expires_in"))
        lives_ms = most_ms if said_ms is None else said_ms
        if said_ms is None and not most_ms:
            raise LoginFailed(f"the answer does not say when the token expires; set {_MOST_LIFE}")
        found = Token(value, "", now_ms, now_ms + lives_ms)
    latest_ms = now_ms + most_ms if most_ms else found.expires_ms
    return Token(found.value, found.subject, found.issued_ms, min(found.expires_ms, latest_ms))


def _is_set(options: Mapping[str, str], name: str) -> bool:
    return bool(options.get(name) or options.get(f"{name}{_LOCATION}"))


def _value(options: Mapping[str, str], name: str) -> str:
    """Return an option, or what is in the file that it names. Raises LoginFailed."""
    return options.get(name) or read_secret(options[f"{name}{_LOCATION}"], f"{name}{_LOCATION}")


def _checked(options: Mapping[str, str], *names: str) -> None:
    """Refuse options that name a file which is not there. Raises BadSecurity."""
    for name in names:
        path = options.get(f"{name}{_LOCATION}")
        if path and not options.get(name) and not Path(path).exists():
            raise BadSecurity(JAAS, f"the file of its option {name}{_LOCATION} does not exist", "name an existing file")


def _tls(options: Mapping[str, str]) -> dict[str, str]:
    found = {f"ssl.{name.removeprefix(_TLS)}": value for name, value in options.items() if name.startswith(_TLS)}
    return found | ({"ssl.truststore.type": "PEM"} if "ssl.truststore.certificates" in found else {})


def _times(options: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return Kafka's keys for the times in the options; Strimzi's own default of a minute is too long here."""
    found = [(key, _seconds(options.get(name, "")) * unit) for name, (key, unit) in _TIMES.items()]
    return [(key, f"{value:.0f}") for key, value in found if value > 0]


def _seconds(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0
