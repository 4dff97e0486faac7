"""TLS and logins of Strimzi's resources as Kafka's settings, whatever raymirror can do with them."""

import pytest

from engine.base.errors import ConfigError
from engine.convert.draft import Draft
from engine.convert.model import Options
from engine.convert.nodes import Branch, parse_yaml_documents
from engine.convert.strimzi_logins import ClusterLogin
from engine.security.oauth.strimzi_handler import read_fetch
from engine.security.sasl.jaas import one_login
from engine.security.settings import SecuritySettings

OAUTH = "org.apache.kafka.common.security.oauthbearer."


def carried(text: str) -> Draft:
    """The draft of a cluster A with these fields."""
    (cluster,) = parse_yaml_documents(text, "f")
    assert isinstance(cluster, Branch)
    draft = Draft("test")
    ClusterLogin(draft, "A", Options(secrets="/s")).carry(cluster)
    return draft


def settings(draft: Draft) -> dict[str, str]:
    return {key.removeprefix("A."): one.value for key, one in draft.settings.items()}


def test_no_login_and_no_tls() -> None:
    draft = carried("alias: a")
    assert settings(draft) == {}
    assert draft.dropped == []


def test_tls_with_the_systems_authorities() -> None:
    assert settings(carried("tls: {}")) == {"security.protocol": "SSL"}
    assert settings(carried("tls: {trustedCertificates: []}")) == {"security.protocol": "SSL"}
    assert settings(carried("tls: null")) == {}


def test_client_credentials_in_kafkas_own_form() -> None:
    draft = carried(
        """
        tls: {}
        authentication:
          type: oauth
          tokenEndpointUri: https://login.example/token
          clientId: mirror
          clientSecret: {secretName: oauth, key: secret}
          scope: kafka
          enableMetrics: true
          userNameClaim: sub
        """
    )
    assert settings(draft) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
        "sasl.login.callback.handler.class": f"{OAUTH}OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": (
            f'{OAUTH}OAuthBearerLoginModule required clientId="mirror"'
            ' clientSecret="${directory:/s/oauth:secret}" scope="kafka";'
        ),
    }
    lost = [one.origin.key for one in draft.dropped if not one.needless]
    assert lost == ["authentication.userNameClaim"]
    assert [one.origin.key for one in draft.dropped if one.needless] == ["authentication.enableMetrics"]


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ("accessToken: {secretName: t, key: token}", 'oauth.access.token="${directory:/s/t:token}"'),
        (
            "clientId: me, clientSecret: {secretName: o, key: k}, audience: a, scope: s, saslExtensions: {x: y}",
            (
                'oauth.client.id="me" oauth.client.secret="${directory:/s/o:k}" oauth.scope="s" oauth.audience="a"'
                ' oauth.sasl.extension.x="y"'
            ),
        ),
        (
            "clientId: me, username: u, passwordSecret: {secretName: p, password: pw}, accessTokenIsJwt: false",
            (
                'oauth.client.id="me" oauth.access.token.is.jwt="false" oauth.password.grant.username="u"'
                ' oauth.password.grant.password="${directory:/s/p:pw}"'
            ),
        ),
        (
            (
                "clientId: me, refreshToken: {secretName: r, key: k}, disableTlsHostnameVerification: true,"
                " tlsTrustedCertificates: [{secretName: ca, certificate: ca.crt}]"
            ),
            (
                'oauth.client.id="me" oauth.refresh.token="${directory:/s/r:k}"'
                ' oauth.ssl.truststore.location="/s/ca/ca.crt" oauth.ssl.truststore.type="PEM"'
                ' oauth.ssl.endpoint.identification.algorithm=""'
            ),
        ),
        (
            (
                "clientId: me, clientAssertionLocation: /a,"
                " tlsTrustedCertificates: [{secretName: a, certificate: a.crt}, {secretName: b, certificate: b.crt}]"
            ),
            (
                'oauth.client.id="me" oauth.client.assertion.location="/a"'
                ' oauth.ssl.truststore.location="/s/A-token-endpoint.pem" oauth.ssl.truststore.type="PEM"'
            ),
        ),
    ],
    ids=["a token", "an audience", "a password", "a refresh token", "an assertion"],
)
def test_what_kafkas_form_lacks_is_carried_for_strimzis_handler(fields: str, options: str) -> None:
    draft = carried(f"authentication: {{type: oauth, tokenEndpointUri: 'https://login.example/token', {fields}}}")
    found = settings(draft)
    endpoint = 'oauth.token.endpoint.uri="https://login.example/token"'
    assert draft.dropped == []
    assert found["sasl.login.callback.handler.class"].startswith("io.strimzi.kafka.oauth.client.")
    assert found["sasl.jaas.config"] == f"{OAUTH}OAuthBearerLoginModule required {endpoint} {options};"
    entry = one_login(found["sasl.jaas.config"].replace("${", "{"))
    if ".location" not in options:  # files that are there only where the mirror runs
        read_fetch(SecuritySettings({}), entry)


def test_settings_of_kafka_as_they_are() -> None:
    draft = carried(
        "authentication: {type: custom, sasl: false, config: {ssl.keystore.location: /a, x: null}}\ntls: {}"
    )
    assert settings(draft) == {"ssl.keystore.location": "/a", "security.protocol": "SSL"}


def test_a_login_that_nobody_knows_is_lost_and_named() -> None:
    draft = carried("tls: {}\nauthentication: {type: magic}")
    assert settings(draft) == {"security.protocol": "SSL"}
    (lost,) = draft.dropped
    assert (str(lost.origin), lost.near, lost.needless) == ("f:2: authentication.type", "A", False)
    assert lost.why == "raymirror does not know the login type 'magic'"


def test_an_unknown_field_of_tls_is_lost_and_named() -> None:
    assert [str(one.origin) for one in carried("tls: {mode: strict}").dropped] == ["f:1: tls.mode"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tls: yes", "f:1: tls: not a tree of keys"),
        ("tls: {trustedCertificates: [{}]}", r"f:1: tls.trustedCertificates\[0\].secretName: missing"),
        ("authentication: {type: tls}", "f:1: authentication.certificateAndKey.secretName: missing"),
        ("authentication: {type: scram-sha-512}", "f:1: authentication.username: missing"),
        ("authentication: {type: plain, username: u}", "f:1: authentication.passwordSecret.secretName: missing"),
    ],
)
def test_a_field_that_is_missing(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=f"^{says}"):
        carried(text)
