"""Recognises files that are not a mirror's configuration, and says how to convert them."""

import re
from collections.abc import Collection

import msgspec

from policies.keys.kafka_keys import LIBRDKAFKA
from policies.keys.likeness import nearest

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
UTF_8_BOM = b"\xef\xbb\xbf"
_START = 200
_JSON = re.compile(r"\s*[{\[]")
_CONNECTOR = re.compile(r"""["']?connector\.class["']?\s*[:=]""")
_RESOURCE = re.compile(r"^(?:apiVersion:\s*\S+[\s\S]*^kind:\s*\S+|kind:\s*\S+[\s\S]*^apiVersion:\s*\S+)", re.MULTILINE)
_STRIMZI = re.compile(r"strimzi\.io/|^kind:\s*KafkaMirrorMaker", re.MULTILINE)
_MM1 = frozenset({"zookeeper.connect", "bootstrap.servers", "group.id", "key.deserializer", "key.serializer", "acks"})
"""Keys of a consumer.properties or producer.properties, as MirrorMaker 1 took them (removed in Kafka 4.0)."""
_WRITE = "write mm2.properties: clusters = A, B, then A.bootstrap.servers and B.bootstrap.servers, A->B.enabled = true"


class Foreign(msgspec.Struct, frozen=True):
    """The kind of a file, the line that shows it (0: none), and what would be right."""

    what: str
    right: str
    line: int = 0


def foreign_bytes(data: bytes) -> Foreign | None:
    """Recognise an encoding that raymirror cannot read; UTF-8 with a byte order mark is fine."""
    if data.startswith(_UTF_16) or b"\0" in data[:_START]:
        return Foreign("saved as UTF-16", "save it as UTF-8")
    return None


def foreign_text(text: str, *, is_yaml: bool) -> Foreign | None:
    """Recognise a file by its syntax: a connector's JSON, a Kubernetes resource."""
    if found := _RESOURCE.search(text):
        line = text.count("\n", 0, found.start()) + 1
        whose = "Strimzi's custom resource" if _STRIMZI.search(text) else "a Kubernetes resource"
        right = f"{_WRITE}; put a connector's `config` entries below A->B, and a cluster's entries below its alias"
        return Foreign(f"this is {whose}, which an operator reads", right, line)
    if _JSON.match(text) and (found := _CONNECTOR.search(text)):
        return _connector(text.count("\n", 0, found.start()) + 1, "JSON")
    if _JSON.match(text) and not is_yaml:
        return Foreign("this is JSON", f"{_WRITE}; or name the file mirror.yaml", 1)
    return None


def foreign_keys(keys: Collection[str]) -> Foreign | None:
    """Recognise a file without `clusters` by its keys."""
    if "connector.class" in keys:
        return _connector(0, "properties")
    if mistyped := next((key for key in keys if nearest(key, ["clusters"])), None):
        return Foreign(f"missing, but the file has {mistyped}", "did you mean clusters?")
    if any("->" in key for key in keys):
        return None
    if any(key in LIBRDKAFKA for key in keys):
        right = f"{_WRITE}, and A.sasl.jaas.config for a login"
        return Foreign("these are settings of one librdkafka client", right)
    if _MM1 & set(keys):
        right = f"{_WRITE}; --whitelist becomes A->B.topics, a consumer's settings go below A.consumer"
        return Foreign("these are settings of one client, for MirrorMaker 1", right)
    return None


def _connector(line: int, kind: str) -> Foreign:
    right = (
        f"{_WRITE}; source.cluster.X becomes A.X, target.cluster.X becomes B.X, any other key X becomes A->B.X, and"
        " the connector's name goes to raymirror.connector.name"
    )
    return Foreign(f"this is a connector's {kind} for Kafka Connect", right, line)
