"""The table of login callback handlers of OAUTHBEARER: how each fetches tokens, and what Java needs to do the same."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from engine.security.oauth import kafka_handler, msk_handler, strimzi_handler
from engine.security.oauth.bearer import BearerLogin
from engine.security.oauth.keeper import Fetch, TokenKeeper, shared_keeper
from engine.security.oauth.keys import (
    HANDLER,
)
from engine.security.oauth.refresh import read_rules
from engine.security.oauth.unsecured import EXTENSION, UnsecuredTokens
from engine.security.sasl.jaas import JAAS, LoginEntry, jaas_text
from engine.security.settings import BadSecurity, SecuritySettings

_KAFKA = "OAuthBearerLoginCallbackHandler"
_UNSECURED = "OAuthBearerUnsecuredLoginCallbackHandler"
_MSK = "IAMOAuthBearerLoginCallbackHandler"
_STRIMZI = "JaasClientOauthLoginCallbackHandler"


class _Handler(NamedTuple):
    fetch: Callable[[SecuritySettings, LoginEntry], Fetch]
    extensions: Callable[[LoginEntry], Mapping[str, str]]
    java: Callable[[SecuritySettings, LoginEntry], dict[str, str]]


def _unsecured_extensions(entry: LoginEntry) -> Mapping[str, str]:
    return {name.removeprefix(EXTENSION): value for name, value in entry.options.items() if name.startswith(EXTENSION)}


def _unsecured_java(_settings: SecuritySettings, entry: LoginEntry) -> dict[str, str]:
    UnsecuredTokens(entry.options)
    return {JAAS: jaas_text(entry.module, entry.options)}


_HANDLERS = {
    _UNSECURED: _Handler(
        lambda _settings, entry: UnsecuredTokens(entry.options), _unsecured_extensions, _unsecured_java
    ),
    _KAFKA: _Handler(kafka_handler.read_fetch, kafka_handler.extensions, kafka_handler.java_settings),
    _MSK: _Handler(msk_handler.read_fetch, lambda _entry: {}, msk_handler.java_settings),
    _STRIMZI: _Handler(strimzi_handler.read_fetch, strimzi_handler.extensions, strimzi_handler.java_settings),
}
"""By the name of the class without its package, which differs between releases."""
_INSTEAD = {
    "GcpLoginCallbackHandler": "set sasl.mechanism = PLAIN, with the e-mail address of a service account as username"
    " and its key in base64 as password",
    "CustomAuthenticateCallbackHandler": f"set {HANDLER} ="
    f" org.apache.kafka.common.security.oauthbearer.{_KAFKA}, sasl.oauthbearer.token.endpoint.url ="
    " https://login.microsoftonline.com/TENANT/oauth2/v2.0/token and the scope"
    " https://NAMESPACE.servicebus.windows.net/.default",
}
"""What does the same without a class that vendors' guides name."""


def read_bearer(settings: SecuritySettings, entry: LoginEntry) -> BearerLogin:
    """Return the login of resolved settings; equal settings share one token in this process. Raises BadSecurity."""
    handler, rules = _handler(settings), read_rules(settings)
    fetch = handler.fetch(settings, entry)
    key = settings.fingerprint("sasl.")
    return BearerLogin(shared_keeper(key, lambda: TokenKeeper(fetch, rules)), handler.extensions(entry))


def java_bearer(settings: SecuritySettings, entry: LoginEntry) -> dict[str, str]:
    """Return the settings of Kafka's Java client for the same login. Raises BadSecurity."""
    return _handler(settings).java(settings, entry)


def _handler(settings: SecuritySettings) -> _Handler:
    name = settings.text(HANDLER, _UNSECURED).rpartition(".")[2]
    if name in _HANDLERS:
        return _HANDLERS[name]
    wrong = "names a Java class that logs in, which cannot run here"
    raise BadSecurity(
        HANDLER, wrong, _INSTEAD.get(name, f"use {_KAFKA} of Kafka, {_STRIMZI} of Strimzi, or {_MSK} of AWS")
    )
