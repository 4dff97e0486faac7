"""Translates a cluster of the configuration to options of Spark's Kafka source and sink, as its Java client needs them.

The engine's own connections use the same settings with Python's TLS, and ignore the login module's name. The Java
client needs that name. Key and trust stores are passed as PEM text, so that no node needs the files.
"""

import re
from pathlib import Path

from engine.base.errors import ConfigError
from engine.config.secrets import login_of, resolved_security
from engine.config.settings import ClusterConfig

FORMAT = "kafka"
PREFIX = "kafka."
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_KEYS = ("PRIVATE KEY", "ENCRYPTED PRIVATE KEY")
_CERTIFICATE = "CERTIFICATE"


class KafkaOptions(dict[str, str]):
    """Options for `DataFrameReader.options` and the like; its repr has only the keys, because values hold passwords."""

    def __repr__(self) -> str:
        return f"KafkaOptions({', '.join(sorted(self))})"

    __str__ = __repr__

    def __rich_repr__(self) -> "list[str]":
        return sorted(self)


def kafka_options(cluster: ClusterConfig) -> KafkaOptions:
    """Return addresses and security of a cluster for Spark. Raises ConfigError, which repeats no secret."""
    security = resolved_security(cluster)
    protocol = security.get("security.protocol", "PLAINTEXT").upper()
    servers = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in cluster.bootstrap)
    found = {"bootstrap.servers": servers, "security.protocol": protocol}
    if protocol.startswith("SASL"):
        found |= _sasl(cluster, security)
    if protocol.endswith("SSL"):
        found |= _tls(cluster, security)
    return KafkaOptions({PREFIX + key: value for key, value in found.items()})


def _sasl(cluster: ClusterConfig, security: dict[str, str]) -> dict[str, str]:
    mechanism = security["sasl.mechanism"]
    username, password = login_of(cluster, security)
    login = f'{_MODULES[mechanism]} required username="{_quoted(username)}" password="{_quoted(password)}";'
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def _quoted(text: str) -> str:
    """Escape for a quoted string of Java's StreamTokenizer, which reads logins (Kafka: JaasConfig)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return re.sub(r"[\x00-\x1f]", lambda found: f"\\{ord(found[0]):03o}", escaped)


def _tls(cluster: ClusterConfig, security: dict[str, str]) -> dict[str, str]:
    """Return trust and key as PEM text; without a truststore, the JRE's authorities are trusted."""
    found: dict[str, str] = {}
    trusted = security.get("ssl.truststore.certificates")
    if "ssl.truststore.location" in security:
        trusted = _blocks(cluster, security, "ssl.truststore.location", (_CERTIFICATE,))
    if trusted is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": trusted}
    if "ssl.keystore.location" in security:
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": _blocks(cluster, security, "ssl.keystore.location", _KEYS),
            "ssl.keystore.certificate.chain": _blocks(cluster, security, "ssl.keystore.location", (_CERTIFICATE,)),
        }
        if "ssl.key.password" in security:
            found["ssl.key.password"] = security["ssl.key.password"]
    algorithm = security.get("ssl.endpoint.identification.algorithm")
    return found if algorithm is None else {**found, "ssl.endpoint.identification.algorithm": algorithm}


def _blocks(cluster: ClusterConfig, security: dict[str, str], key: str, kinds: tuple[str, ...]) -> str:
    """Return the blocks of some kinds in a PEM file. Raises ConfigError."""
    try:
        text = Path(security[key]).read_text(encoding="latin-1")
    except OSError as error:
        raise _error(cluster, key, f"cannot be read: {error.strerror}", "give a readable PEM file") from None
    found = [block[0] for block in _PEM.finditer(text) if block[1] in kinds]
    if not found:
        wrong = f"holds no {' or '.join(kinds)}"
        others = sorted({block[1] for block in _PEM.finditer(text)})
        named = f", only {', '.join(others)}" if others else ""
        right = "the Java client reads keys as PKCS#8 only: openssl pkcs8 -topk8" if kinds == _KEYS else "add it"
        raise _error(cluster, key, wrong + named, right)
    return "\n".join(found)


def _error(cluster: ClusterConfig, key: str, wrong: str, right: str) -> ConfigError:
    name, line = cluster.places.get(key, (f"{cluster.alias}.{key}", 0))
    return ConfigError(cluster.file, line, name, wrong, right)
