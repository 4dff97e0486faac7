"""Placeholders and credentials, resolved in the process that needs them and nowhere else.

`${file:PATH:KEY}` and `${env:NAME}` as Kafka's FileConfigProvider and EnvVarConfigProvider write them.
"""

import os
import re
import ssl
from pathlib import Path

from engine.errors import ConfigError
from engine.kafka.security import HandshakeOptions
from engine.properties import load_properties
from engine.settings import ClusterConfig

_PLACEHOLDER = re.compile(r"\$\{(\w+):(?:([^:}]*):)?([^}]*)\}")
_JAAS_FIELD = re.compile(r"\b(username|password)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s;]+))")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def resolve(text: str, file: str, key: str) -> str:
    """Replace placeholders; raises ConfigError naming the key, never the value."""

    def value(found: re.Match[str]) -> str:
        provider, path, name = found.groups()
        if provider == "env":
            if name not in os.environ:
                raise ConfigError(file, 0, key, f"environment variable {name} is not set", "set it for this process")
            return os.environ[name]
        if provider == "file" and path:
            return _from_file(Path(path), name, file, key)
        raise ConfigError(file, 0, key, f"unknown config provider {provider!r}", "use ${file:PATH:KEY} or ${env:NAME}")

    return _PLACEHOLDER.sub(value, text)


def _from_file(path: Path, name: str, file: str, key: str) -> str:
    try:
        found = load_properties(path).get(name)
    except OSError as error:
        raise ConfigError(file, 0, key, f"cannot read {path}: {error.strerror}", "give a readable file") from None
    if found is None:
        raise ConfigError(file, 0, key, f"{path} has no key {name}", "name a key of that file")
    return found


def handshake_options(cluster: ClusterConfig, client_id: str) -> HandshakeOptions:
    """Return how to connect to a cluster. Raises ConfigError for a protocol or mechanism that is not supported."""
    security = {key: resolve(value, cluster.file, f"{cluster.alias}.{key}") for key, value in cluster.security.items()}
    protocol = security.get("security.protocol", "PLAINTEXT").upper()
    username, password = _jaas(security.get("sasl.jaas.config", ""))
    mechanism = security.get("sasl.mechanism", "PLAIN") if protocol.startswith("SASL") else None
    if mechanism is not None and mechanism not in _MECHANISMS:
        raise ConfigError(
            cluster.file,
            0,
            f"{cluster.alias}.sasl.mechanism",
            f"{mechanism} is not supported",
            f"use {', '.join(_MECHANISMS)}",
        )
    return HandshakeOptions(
        client_id=client_id,
        security_protocol=protocol,
        ssl_context=_ssl_context(cluster, security) if protocol.endswith("SSL") else None,
        sasl_mechanism=mechanism,
        username=username,
        password=password,
    )


def _jaas(text: str) -> tuple[str | None, str | None]:
    fields = {found[1]: found[2] or found[3] or found[4] for found in _JAAS_FIELD.finditer(text)}
    return fields.get("username"), fields.get("password")


def _ssl_context(cluster: ClusterConfig, security: dict[str, str]) -> ssl.SSLContext:
    """Return a context for PEM stores; Java key stores come later."""
    store, kind = security.get("ssl.truststore.location"), security.get("ssl.truststore.type", "JKS")
    if store is not None and kind.upper() != "PEM":
        raise ConfigError(
            cluster.file,
            0,
            f"{cluster.alias}.ssl.truststore.type",
            f"{kind} stores cannot be read",
            "convert the store to PEM and set ssl.truststore.type=PEM",
        )
    context = ssl.create_default_context(cafile=store)
    if security.get("ssl.endpoint.identification.algorithm") == "":
        context.check_hostname = False
    return context
