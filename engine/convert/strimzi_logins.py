"""TLS and logins of a cluster in Strimzi's resources, as Kafka's settings with references to mounted Secrets.

The settings are those that Strimzi's operator generates (KafkaMirrorMaker2Connectors, versions 0.45 and 1.2).
"""

from collections.abc import Callable

from engine.convert.draft import Draft
from engine.convert.model import Options, Origin
from engine.convert.nodes import Branch
from engine.convert.strimzi_oauth import CERTIFICATES, KNOWN, NEEDLESS, Pairs, oauth_settings

_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_USUAL_CERTIFICATE = "ca.crt"
_UNKNOWN = "raymirror does not know this field"


class ClusterLogin:
    """Carries TLS and login of one cluster of a resource."""

    def __init__(self, draft: Draft, alias: str, options: Options) -> None:
        self._draft, self._alias, self._folder = draft, alias, options.secrets

    def carry(self, cluster: Branch) -> None:
        """Carry `tls` and `authentication`. Raises ConfigError for a field that is missing or has the wrong form."""
        secure = cluster.get("tls") is not None
        login = cluster.branch("authentication")
        kind = login.text("type") or ""
        if secure:
            self._trusted(cluster.branch("tls"))
        protocol = "SSL" if secure else "PLAINTEXT"
        if login.entries and kind in _LOGINS:
            sasl = login.text("sasl") == "true" if kind == "custom" else kind != "tls"
            protocol = {"SSL": "SASL_SSL", "PLAINTEXT": "SASL_PLAINTEXT"}[protocol] if sasl else protocol
            for key, value, why, origin in _LOGINS[kind](self, login):
                self._set(key, value, origin, why)
        elif login.entries:
            self._drop(login.at("type"), f"raymirror does not know the login type {kind!r}")
        if secure or login.entries:
            self._set("security.protocol", protocol, cluster.at("tls" if secure else "authentication"), "")

    def _set(self, key: str, value: str, origin: Origin, why: str) -> None:
        self._draft.change(f"{self._alias}.{key}", value, origin, why)

    def _drop(self, origin: Origin, why: str, instead: str = "") -> None:
        self._draft.drop(origin, why, self._alias, instead)

    def _mounted(self, secret: str) -> str:
        return f"mount the Secret {secret} at {self._folder}/{secret}"

    def _reference(self, place: Branch, *names: str) -> tuple[str, str]:
        """Return the reference to an entry of a Secret, and why it is another than in the resource."""
        secret = place.needed("secretName", "name the Secret").text
        key = next((place.text(name) for name in names if place.text(name)), None) or names[0]
        return f"${{directory:{self._folder}/{secret}:{key}}}", self._mounted(secret)

    def _trusted(self, tls: Branch) -> None:
        found = tls.branches("trustedCertificates")
        for name in tls.entries.keys() - {"trustedCertificates"}:
            self._drop(tls.at(name), _UNKNOWN)
        if not found:
            return
        origin = tls.at("trustedCertificates")
        pairs = [self._certificate(one) for one in found]
        self._set("ssl.truststore.type", "PEM", origin, "")
        if len(pairs) == 1:
            secret, file, why = pairs[0]
            self._set("ssl.truststore.location", f"{self._folder}/{secret}/{file}", origin, why)
        else:
            text = "\n".join(f"${{directory:{self._folder}/{secret}:{file}}}" for secret, file, _ in pairs)
            self._set("ssl.truststore.certificates", text, origin, "; ".join(dict.fromkeys(why for *_, why in pairs)))

    def _certificate(self, one: Branch) -> tuple[str, str, str]:
        secret = one.needed("secretName", "name the Secret").text
        file, why = one.text("certificate"), self._mounted(secret)
        if file is None:
            pattern = one.text("pattern") or "*.crt"
            why = f"{why}; raymirror reads single files: {_USUAL_CERTIFICATE} is the usual one of {pattern}"
        return secret, file or _USUAL_CERTIFICATE, why

    # --- logins ------------------------------------------------------------------------------------------------------

    def with_certificate(self, login: Branch) -> Pairs:
        """`tls`: key and certificate of the client, for raymirror in one PEM file."""
        place = login.branch("certificateAndKey")
        secret = place.needed("secretName", "name the Secret").text
        certificate = place.text("certificate") or "user.crt"
        key = place.text("key") or "user.key"
        folder = f"{self._folder}/{secret}"
        why = f"{self._mounted(secret)}; one file holds both: cat {certificate} {key} > user.pem"
        yield "ssl.keystore.type", "PEM", "", place.origin
        yield "ssl.keystore.location", f"{folder}/user.pem", why, place.origin

    def with_password(self, login: Branch) -> Pairs:
        """`plain`, `scram-sha-256`, `scram-sha-512`."""
        kind = login.text("type") or ""
        user = login.needed("username", "name the user").text
        password, why = self._reference(login.branch("passwordSecret"), "password")
        module = _PLAIN_MODULE if kind == "plain" else _SCRAM_MODULE
        yield "sasl.mechanism", kind.upper(), "", login.at("type")
        yield (
            "sasl.jaas.config",
            f'{module} required username="{_quoted(user)}" password="{password}";',
            why,
            login.at("passwordSecret"),
        )

    def with_token(self, login: Branch) -> Pairs:
        """`oauth`."""
        for name in login.entries:
            if name in NEEDLESS:
                self._draft.drop_needless(login.at(name), "it tunes Strimzi's login handler", self._alias)
            elif name not in KNOWN:
                self._drop(login.at(name), _UNKNOWN)
        return oauth_settings(login, self._reference, self._of_endpoint)

    def _of_endpoint(self, login: Branch) -> tuple[str, str]:
        """Return the path of the certificates that a token endpoint is trusted by, and what to do for it."""
        pairs = [self._certificate(one) for one in login.branches(CERTIFICATES)]
        if len(pairs) == 1:
            secret, file, why = pairs[0]
            return f"{self._folder}/{secret}/{file}", why
        path = f"{self._folder}/{self._alias}-token-endpoint.pem"
        files = " ".join(f"{self._folder}/{secret}/{file}" for secret, file, _ in pairs)
        return path, "; ".join([*dict.fromkeys(why for *_, why in pairs), f"one file holds all: cat {files} > {path}"])

    def as_written(self, login: Branch) -> Pairs:
        """`custom`: Kafka's settings themselves."""
        for key, value in login.branch("config").values():
            yield key, value.text, "", value.origin


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


_LOGINS: dict[str, Callable[[ClusterLogin, Branch], Pairs]] = {
    "tls": ClusterLogin.with_certificate,
    "plain": ClusterLogin.with_password,
    "scram-sha-256": ClusterLogin.with_password,
    "scram-sha-512": ClusterLogin.with_password,
    "oauth": ClusterLogin.with_token,
    "custom": ClusterLogin.as_written,
}
