"""The login type `oauth` of Strimzi's resources: Kafka's own form where that says it all, else Strimzi's handler.

raymirror reads the options of Strimzi's handler in the login module. The fields are those of
KafkaClientAuthenticationOAuth, the options those that Strimzi's operator makes of them (version 0.45).
"""

from collections.abc import Callable, Iterator, Mapping

from engine.convert.model import Origin
from engine.convert.nodes import Branch

_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_KAFKA_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
_STRIMZI_HANDLER = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
NEEDLESS = ("enableMetrics", "includeAcceptHeader", "httpRetries")
"""Fields that tune Strimzi's handler, and mean nothing here."""
_ENDPOINT = "tokenEndpointUri"
_IN_KAFKA = {"clientId": "clientId", "clientSecret": "clientSecret", "scope": "scope"}
_IN_STRIMZI = {
    _ENDPOINT: "oauth.token.endpoint.uri",
    "clientId": "oauth.client.id",
    "clientSecret": "oauth.client.secret",
    "scope": "oauth.scope",
    "audience": "oauth.audience",
    "refreshToken": "oauth.refresh.token",
    "accessToken": "oauth.access.token",
    "accessTokenLocation": "oauth.access.token.location",
    "accessTokenIsJwt": "oauth.access.token.is.jwt",
    "username": "oauth.password.grant.username",
    "passwordSecret": "oauth.password.grant.password",
    "clientAssertion": "oauth.client.assertion",
    "clientAssertionLocation": "oauth.client.assertion.location",
    "clientAssertionType": "oauth.client.assertion.type",
    "connectTimeoutSeconds": "oauth.connect.timeout.seconds",
    "readTimeoutSeconds": "oauth.read.timeout.seconds",
    "httpRetryPauseMs": "oauth.http.retry.pause.millis",
    "maxTokenExpirySeconds": "oauth.max.token.expiry.seconds",
}
"""Fields -> options of the login module."""
_SECRETS = {"passwordSecret": "password"}
"""Fields whose entry of a Secret has another name than `key`."""
CERTIFICATES, _NO_NAME_CHECK, _EXTENSIONS = "tlsTrustedCertificates", "disableTlsHostnameVerification", "saslExtensions"
_TLS = (CERTIFICATES, _NO_NAME_CHECK)
KNOWN = ("type", *_IN_STRIMZI, *_TLS, _EXTENSIONS, *NEEDLESS)

Pairs = Iterator[tuple[str, str, str, Origin]]
"""Settings of a cluster: key, value, why it is not as in the resource, place."""
Reference = Callable[..., tuple[str, str]]
"""Returns the reference to an entry of a Secret, and what to do for it."""
Trusted = Callable[[Branch], tuple[str, str]]
"""Returns the path of trusted certificates, and what to do for it."""


def oauth_settings(login: Branch, reference: Reference, trusted: Trusted) -> Pairs:
    """Yield the settings of a login. Raises ConfigError for a field that has the wrong form."""
    own = login.entries.keys() & {*_IN_STRIMZI, *_TLS, _EXTENSIONS}
    yield "sasl.mechanism", "OAUTHBEARER", "", login.at("type")
    if own <= {*_IN_KAFKA, _ENDPOINT}:
        if (endpoint := login.text(_ENDPOINT)) is not None:
            yield "sasl.oauthbearer.token.endpoint.url", endpoint, "", login.at(_ENDPOINT)
        why = "Kafka's own in place of Strimzi's"
        yield "sasl.login.callback.handler.class", _KAFKA_HANDLER, why, login.at("type")
        options, whys = _options(login, _IN_KAFKA, reference)
    else:
        yield "sasl.login.callback.handler.class", _STRIMZI_HANDLER, "", login.at("type")
        options, whys = _options(login, _IN_STRIMZI, reference)
        if login.branches(CERTIFICATES):
            options["oauth.ssl.truststore.location"], why = trusted(login)
            options["oauth.ssl.truststore.type"] = "PEM"
            whys.append(why)
        if login.text(_NO_NAME_CHECK) == "true":
            options["oauth.ssl.endpoint.identification.algorithm"] = ""
        options |= {f"oauth.sasl.extension.{name}": one.text for name, one in login.branch(_EXTENSIONS).values()}
    said = "".join(f' {name}="{_quoted(value)}"' for name, value in options.items())
    yield "sasl.jaas.config", f"{_MODULE} required{said};", "; ".join(dict.fromkeys(whys)), login.origin


def _options(login: Branch, names: Mapping[str, str], reference: Reference) -> tuple[dict[str, str], list[str]]:
    options: dict[str, str] = {}
    whys: list[str] = []
    for field, name in names.items():
        if isinstance(login.get(field), Branch):
            options[name], why = reference(login.branch(field), _SECRETS.get(field, "key"))
            whys.append(why)
        elif (text := login.text(field)) is not None:
            options[name] = text
    return options, whys


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
