"""Turns the security settings of a cluster into handshake options; knows which keys may hold a secret.

Only this module resolves secrets of clusters; `engine/config/http/http_secrets.py` resolves those of the HTTP server.
"""

import re
import ssl
from collections.abc import Callable
from typing import TypeVar

from engine.config.file.providers import Where
from engine.config.security import HandshakeOptions
from engine.config.settings import ClusterConfig

SECURITY_KEYS = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.truststore.certificates",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)
"""Client settings that are honoured, at top level or under a cluster's alias."""
SECRET_KEYS = ("sasl.jaas.config", "ssl.key.password")
"""The security keys whose values may contain a clear-text password."""
_HTTP_SECRET = re.compile(r"raymirror\.http\..*\.(?:password|token)")

_T = TypeVar("_T")
_MODULE = re.compile(r"(?:[\w$]+\.)*(\w+)\s")
_MODULES = {"PlainLoginModule": ("PLAIN",), "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512")}
_PACKAGES = {
    "PlainLoginModule": "org.apache.kafka.common.security.plain.",
    "ScramLoginModule": "org.apache.kafka.common.security.scram.",
}
_PEM_ENDINGS = (".pem", ".crt", ".cer", ".cert")
_PKCS12_ENDINGS = (".p12", ".pfx", ".pkcs12")
_CONVERSIONS = {
    "JKS": "keytool -importkeystore -srckeystore STORE -destkeystore STORE.p12 -deststoretype PKCS12, then"
    " openssl pkcs12 -in STORE.p12 -nodes -out STORE.pem",
    "PKCS12": "openssl pkcs12 -in STORE -nodes -out STORE.pem",
}
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_JAAS_FIELD = re.compile(r"\b(username|password)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s;\"']+))")


def is_secret(key: str) -> bool:
    """Whether the value of a key, with or without an alias, may contain a clear-text password."""
    of_cluster = any(key == secret or key.endswith(f".{secret}") for secret in SECRET_KEYS)
    return of_cluster or bool(_HTTP_SECRET.fullmatch(key))


def check_security(cluster: ClusterConfig) -> None:
    """Refuse settings that cannot work. Raises ConfigError. Placeholders are resolved and checked only when used."""
    _check(cluster, {key: value for key, value in cluster.security.items() if "${" not in value})
    if _protocol(cluster.security).startswith("SASL"):
        _check_login(cluster, cluster.security)
    if _protocol(cluster.security).startswith("SASL") and "sasl.jaas.config" not in cluster.security:
        raise _where(cluster, "sasl.jaas.config").error(
            "missing, but security.protocol asks for SASL",
            'give a login module with username="..." and password="...";'
            " ${file:PATH:KEY} keeps the password out of this file",
        )


def literal_secrets(cluster: ClusterConfig) -> tuple[tuple[str, int], ...]:
    """Return (key, line) of each setting that contains a clear-text password instead of a placeholder."""
    jaas = _JAAS_FIELD.findall(cluster.security.get("sasl.jaas.config", ""))
    in_jaas = any(name == "password" and "${" not in "".join(value) for name, *value in jaas)
    key_password = cluster.security.get("ssl.key.password", "${")
    found = ["sasl.jaas.config"] * in_jaas + ["ssl.key.password"] * ("${" not in key_password)
    return tuple(cluster.places.get(key, (key, 0)) for key in found)


def resolved_security(cluster: ClusterConfig) -> dict[str, str]:
    """Return the security settings with secrets in clear text, for a client; never show them. Raises ConfigError."""
    security = {
        key: cluster.providers.resolve(value, _where(cluster, key)).strip() for key, value in cluster.security.items()
    }
    _check(cluster, security)
    if _protocol(security).startswith("SASL"):
        _check_login(cluster, security)
    return security


def known_user(cluster: ClusterConfig) -> str:
    """Return raymirror's user name at a cluster's brokers; empty if only the brokers know it. Raises ConfigError."""
    security = resolved_security(cluster)
    protocol = _protocol(security)
    if protocol.startswith("SASL"):
        return login_of(cluster, security)[0]
    return "" if protocol == "SSL" else "ANONYMOUS"


def handshake_options(cluster: ClusterConfig, client_id: str) -> HandshakeOptions:
    """Return how to connect to a cluster. Raises ConfigError if a setting cannot be resolved or is not supported."""
    security = resolved_security(cluster)
    protocol = _protocol(security)
    sasl = protocol.startswith("SASL")
    username, password = login_of(cluster, security) if sasl else (None, None)
    return HandshakeOptions(
        client_id=client_id,
        security_protocol=protocol,
        ssl_context=_ssl_context(cluster, security) if protocol.endswith("SSL") else None,
        has_certificate="ssl.keystore.location" in security,
        sasl_mechanism=_mechanism(security) if sasl else None,
        username=username,
        password=password,
    )


def _protocol(security: dict[str, str]) -> str:
    return security.get("security.protocol", "PLAINTEXT").strip().upper()


def _mechanism(security: dict[str, str]) -> str:
    return security.get("sasl.mechanism", "GSSAPI").strip()


def _where(cluster: ClusterConfig, key: str) -> Where:
    name, line = cluster.places.get(key, (f"{cluster.alias}.{key}", 0))
    return Where(cluster.file, line, name)


def _check(cluster: ClusterConfig, security: dict[str, str]) -> None:
    protocol, mechanism = _protocol(security), _mechanism(security)
    if protocol not in _PROTOCOLS:
        raise _where(cluster, "security.protocol").error(
            f"{protocol!r} is not a security protocol", f"use {', '.join(_PROTOCOLS)}"
        )
    known = "sasl.mechanism" in security or "sasl.mechanism" not in cluster.security
    if protocol.startswith("SASL") and known and mechanism not in _MECHANISMS:
        raise _where(cluster, "sasl.mechanism").error(
            f"{mechanism} is not supported",
            f"use {', '.join(_MECHANISMS)} (Kafka's default, GSSAPI, is not supported)",
        )
    for store in ("ssl.truststore", "ssl.keystore"):
        if f"{store}.location" in security:
            _check_store(cluster, security, store)


def _check_store(cluster: ClusterConfig, security: dict[str, str], store: str) -> None:
    """Refuse a store that is not a PEM file; if no type is set, the file name suggests the type."""
    kind = security.get(f"{store}.type", "JKS").strip().upper()
    if kind == "PEM" or (f"{store}.type" in cluster.security and f"{store}.type" not in security):
        return
    if f"{store}.type" in security:
        right = f"convert the store to PEM and set {store}.type=PEM; {_CONVERSIONS.get(kind, _CONVERSIONS['JKS'])}"
        raise _where(cluster, f"{store}.type").error(f"{kind} stores cannot be read", right)
    location, at = security[f"{store}.location"].strip().lower(), _where(cluster, f"{store}.location")
    if location.endswith(_PEM_ENDINGS):
        raise at.error(
            f"the name is that of a PEM file, but without {store}.type the type is JKS", f"set {store}.type=PEM"
        )
    kind = "PKCS12" if location.endswith(_PKCS12_ENDINGS) else "JKS"
    right = f"convert the store to PEM and set {store}.type=PEM; {_CONVERSIONS[kind]}"
    raise at.error(f"JKS stores cannot be read, and a store without {store}.type is JKS (Kafka's default)", right)


def _check_login(cluster: ClusterConfig, security: dict[str, str]) -> None:
    """Refuse a login that Kafka's clients refuse (JaasConfig), or a login module of another mechanism."""
    jaas, mechanism = security.get("sasl.jaas.config", "").strip(), _mechanism(security)
    if jaas and not jaas.endswith((";", "}")):
        raise _where(cluster, "sasl.jaas.config").error(
            "has no ; at its end", "write a ; after the last option, as Kafka's clients require"
        )
    module = _MODULE.match(jaas)
    mechanisms = _MODULES.get(module[1]) if module else None
    if mechanisms and "${" not in mechanism and mechanism not in mechanisms:
        right = next(
            (name for name, theirs in _MODULES.items() if mechanism in theirs), "the login module of the mechanism"
        )
        raise _where(cluster, "sasl.jaas.config").error(
            f"{module and module[1]} is for {' or '.join(mechanisms)}, but sasl.mechanism is {mechanism}",
            f"use {_PACKAGES.get(right, '')}{right}, or set sasl.mechanism = {mechanisms[0]}",
        )


def login_of(cluster: ClusterConfig, security: dict[str, str]) -> tuple[str, str]:
    """Return user name and password of a login; `security` has its secrets resolved. Raises ConfigError."""
    fields: dict[str, str] = {}
    for found in _JAAS_FIELD.finditer(security.get("sasl.jaas.config", "")):
        quoted = found[2]
        fields[found[1]] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else found[3] or found[4] or ""
    if "username" not in fields or "password" not in fields:
        raise _where(cluster, "sasl.jaas.config").error(
            "has no username or no password", 'write ...LoginModule required username="..." password="...";'
        )
    return fields["username"], fields["password"]


def _ssl_context(cluster: ClusterConfig, security: dict[str, str]) -> ssl.SSLContext:
    """Return an SSL context of the PEM stores; without a truststore it trusts the system's authorities."""
    trusted, own = security.get("ssl.truststore.location"), security.get("ssl.keystore.location")
    context = _load(
        cluster,
        "ssl.truststore.location" if trusted else "ssl.truststore.certificates",
        lambda: ssl.create_default_context(cafile=trusted, cadata=security.get("ssl.truststore.certificates")),
    )
    if own is not None:
        password = security.get("ssl.key.password")
        _load(cluster, "ssl.keystore.location", lambda: context.load_cert_chain(own, password=password))
    if security.get("ssl.endpoint.identification.algorithm") == "":
        context.check_hostname = False
    return context


def _load(cluster: ClusterConfig, key: str, load: Callable[[], _T]) -> _T:
    """Call `load`, which reads a store; a failure becomes a ConfigError that repeats nothing of the content."""
    try:
        return load()
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = error.strerror or error.__class__.__name__ if isinstance(error, OSError) else str(error)
        raise _where(cluster, key).error(f"cannot be used: {reason}", "give a readable PEM file") from None
