"""Tokens by Kafka's own keys (KIP-768, KIP-1139, KIP-1258; Kafka: OAuthBearerLoginCallbackHandler)."""

import base64
import ssl
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote_plus, unquote, urlsplit

from engine.base.clock import wall_ms
from engine.security.oauth.assertion import read_assertion, read_secret
from engine.security.oauth.endpoint import TokenEndpoint, access_token, read_endpoint_rules
from engine.security.oauth.keeper import Fetch
from engine.security.oauth.keys import (
    ASSERTION_FILE,
    CLIENT_ID,
    CLIENT_SECRET,
    ENDPOINT,
    ISSUER,
    RETRIEVER,
    SCOPE,
    SINCE_3_1,
    SUBJECT_CLAIM,
    URL_ENCODE,
    VALIDATOR,
)
from engine.security.oauth.token import Token, read_token
from engine.security.sasl.jaas import JAAS, LoginEntry, jaas_text
from engine.security.sasl.login import LoginFailed
from engine.security.settings import BadSecurity, SecuritySettings
from engine.security.tls.context import tls_context
from engine.security.tls.keys import check_tls

EXTENSION = "extension_"
_IN_JAAS = {CLIENT_ID: "clientId", CLIENT_SECRET: "clientSecret", SCOPE: "scope"}
"""Options of the login module that the keys have replaced in Kafka 4.1; a key wins."""
_DEFAULT, _BY_CREDENTIALS = "DefaultJwtRetriever", "ClientCredentialsJwtRetriever"
_BY_ASSERTION, _BY_FILE = "JwtBearerJwtRetriever", "FileJwtRetriever"
_RETRIEVERS = (_DEFAULT, _BY_CREDENTIALS, _BY_ASSERTION, _BY_FILE)
_VALIDATORS = ("DefaultJwtValidator", "ClientJwtValidator")
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_HANDLER_BEFORE_4 = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

Request = Callable[[], tuple[dict[str, str], dict[str, str]]]
"""Returns the form and the headers that ask for a token. Raises LoginFailed."""


def read_fetch(settings: SecuritySettings, entry: LoginEntry) -> Fetch:
    """Return how tokens are fetched. Raises BadSecurity."""
    retriever = _class(settings, RETRIEVER, _RETRIEVERS)
    _class(settings, VALIDATOR, _VALIDATORS)
    if ENDPOINT not in settings:
        raise BadSecurity(ENDPOINT, "missing", "name the token endpoint, or a file with a token as file:///PATH")
    url, subject = urlsplit(settings.text(ENDPOINT)), settings.text(SUBJECT_CLAIM, "sub")
    if url.scheme == "file" and retriever in (_DEFAULT, _BY_FILE):
        path = unquote(url.path)
        return lambda: read_token(read_secret(path, ENDPOINT), wall_ms(), subject)
    endpoint = token_endpoint(settings, settings.text(ENDPOINT), entry.options)
    request = _jwt_bearer(settings) if retriever == _BY_ASSERTION else _client_credentials(settings, entry)

    def fetch() -> Token:
        return read_token(access_token(endpoint.ask(*request())), wall_ms(), subject)

    return fetch


def token_endpoint(settings: SecuritySettings, url: str, tls: Mapping[str, str], key: str = ENDPOINT) -> TokenEndpoint:
    """Return a token endpoint with the `ssl.` options of a login module (JaasOptionsUtils). Raises BadSecurity."""
    own = SecuritySettings({name: value for name, value in tls.items() if name.startswith("ssl.")})
    try:
        check_tls(own)
    except BadSecurity as bad:
        raise BadSecurity(JAAS, f"its option {bad.key}: {bad.wrong}", bad.right) from None

    def context() -> ssl.SSLContext:
        try:
            return tls_context(own)
        except BadSecurity as bad:
            raise LoginFailed(f"{JAAS}: its option {bad.key}: {bad.wrong}; {bad.right}") from None

    return TokenEndpoint(url, read_endpoint_rules(settings), context, key=key)


def extensions(entry: LoginEntry) -> dict[str, str]:
    """Return the SASL extensions in the options of a login module."""
    return {name.removeprefix(EXTENSION): value for name, value in entry.options.items() if name.startswith(EXTENSION)}


def basic(client_id: str, secret: str, *, url_encoded: bool = False) -> dict[str, str]:
    """Return the header with the name and secret of a client (RFC 7617; not encoded by default, as in Kafka)."""
    words = [quote_plus(word) if url_encoded else word for word in (client_id.strip(), secret.strip())]
    return {"Authorization": f"Basic {base64.b64encode(':'.join(words).encode()).decode()}"}


def _option(settings: SecuritySettings, entry: LoginEntry, key: str) -> str:
    return (settings.text(key) or entry.options.get(_IN_JAAS[key], "")).strip()


def _needed(settings: SecuritySettings, entry: LoginEntry, key: str) -> str:
    found = _option(settings, entry, key)
    if not found:
        raise BadSecurity(key, "missing", f"set it, or the option {_IN_JAAS[key]} in {JAAS}")
    return found


def _client_credentials(settings: SecuritySettings, entry: LoginEntry) -> Request:
    """Return a request by an assertion if one is configured, else by the client's secret, as in Kafka 4.3."""
    scope = _option(settings, entry, SCOPE)
    form = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
    if ASSERTION_FILE in settings or ISSUER in settings:
        assertion, client_id = read_assertion(settings), _option(settings, entry, CLIENT_ID)
        named = {**form, "client_assertion_type": _CLIENT_ASSERTION, **({"client_id": client_id} if client_id else {})}
        return lambda: ({**named, "client_assertion": assertion()}, {})
    names = _needed(settings, entry, CLIENT_ID), _needed(settings, entry, CLIENT_SECRET)
    headers = basic(*names, url_encoded=settings.flag(URL_ENCODE, default=False))
    return lambda: (form, headers)


def _jwt_bearer(settings: SecuritySettings) -> Request:
    assertion, scope = read_assertion(settings), settings.text(SCOPE)
    form = {"grant_type": _JWT_BEARER, **({"scope": scope} if scope else {})}
    return lambda: ({**form, "assertion": assertion()}, {})


def _class(settings: SecuritySettings, key: str, known: tuple[str, ...]) -> str:
    """Return the name of a class without its package; own classes cannot run here. Raises BadSecurity."""
    name = settings.text(key, known[0]).rpartition(".")[2]
    if name not in known:
        raise BadSecurity(key, "names a Java class that cannot run here", f"use one of {', '.join(known)}")
    return name


def java_settings(settings: SecuritySettings, entry: LoginEntry) -> dict[str, str]:
    """Return the same login for Kafka's Java client 3.4, which knows client credentials and files. BadSecurity."""
    read_fetch(settings, entry)
    if _class(settings, RETRIEVER, _RETRIEVERS) == _BY_ASSERTION:
        raise _no_java(RETRIEVER)
    if ASSERTION_FILE in settings or ISSUER in settings:
        raise _no_java(ASSERTION_FILE if ASSERTION_FILE in settings else ISSUER)
    options = {name: _option(settings, entry, key) for key, name in _IN_JAAS.items()}
    if settings.flag(URL_ENCODE, default=False):  # that client has no such key, so it gets them encoded
        options |= {name: quote_plus(options[name]) for name in ("clientId", "clientSecret")}
    others = {name: value for name, value in entry.options.items() if name not in _IN_JAAS.values()}
    return java_login({name: value for name, value in options.items() if value} | others, settings)


def java_login(options: Mapping[str, str], settings: SecuritySettings, **more: Any) -> dict[str, str]:
    """Return the settings of Kafka's Java client 3.4 for the options of its login module."""
    tuning = {key: settings.text(key) for key in SINCE_3_1 if key in settings}
    handler = {"sasl.login.callback.handler.class": _HANDLER_BEFORE_4}
    return {JAAS: jaas_text(_MODULE, options), **handler, **tuning, **more}


def _no_java(key: str) -> BadSecurity:
    wrong = "is unknown to the Kafka client of Spark 3.5, so that Spark cannot log in"
    return BadSecurity(key, wrong, "give Spark's jobs a client id and secret, or run without raymirror.spark")
