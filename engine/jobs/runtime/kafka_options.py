"""Translates a cluster of the configuration to options of Spark's Kafka source and sink, as its Java client needs them.

The engine's own connections use the same settings with Python's TLS and logins. Key and trust stores of every format
are passed as PEM text, so that no node needs the files.
"""

from engine.config.secrets import errors_of, resolved_settings
from engine.config.settings import ClusterConfig
from engine.security.mechanisms import java_login
from engine.security.settings import SecuritySettings
from engine.security.tls.keys import ENABLED, HOSTNAME_CHECK, PROTOCOL, SUITES
from engine.security.tls.stores import as_pem

FORMAT = "kafka"
PREFIX = "kafka."


class KafkaOptions(dict[str, str]):
    """Options for `DataFrameReader.options` and the like; its repr has only the keys, because values hold passwords."""

    def __repr__(self) -> str:
        return f"KafkaOptions({', '.join(sorted(self))})"

    __str__ = __repr__

    def __rich_repr__(self) -> "list[str]":
        return sorted(self)


def kafka_options(cluster: ClusterConfig) -> KafkaOptions:
    """Return addresses and security of a cluster for Spark. Raises ConfigError, which repeats no secret."""
    settings = resolved_settings(cluster)
    protocol = settings.text("security.protocol", "PLAINTEXT").upper()
    servers = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in cluster.bootstrap)
    found = {"bootstrap.servers": servers, "security.protocol": protocol}
    with errors_of(cluster):
        if protocol.startswith("SASL"):
            found |= java_login(settings)
        if protocol.endswith("SSL"):
            found |= _tls(settings)
    return KafkaOptions({PREFIX + key: value for key, value in found.items()})


def _tls(settings: SecuritySettings) -> dict[str, str]:
    """Return stores as PEM text, and what else Java's TLS takes; without a truststore, the JRE's authorities count."""
    chosen = {key: settings.text(key) for key in (PROTOCOL, ENABLED, SUITES, HOSTNAME_CHECK) if key in settings}
    return as_pem(settings) | chosen
