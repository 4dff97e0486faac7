"""The keys that the configuration classes in Kafka's jars define, with their defaults, and the record of them.

python -m tests.harness.kafka_classes    writes the record anew, after a change of Kafka's version
"""

import json
import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]

from deploy.local.jars import kafka_classpath
from tests.harness.jvm import jvm

RECORD = Path(__file__).parent / "kafka-4.3.1-keys.json"
PACKAGES = (
    "org/apache/kafka/connect/mirror/",
    "org/apache/kafka/connect/runtime/",
    "org/apache/kafka/clients/consumer/",
    "org/apache/kafka/clients/producer/",
    "org/apache/kafka/clients/admin/",
)
"""Where the keys of MM2, Connect and the clients are defined."""
_DEFINITION = "org.apache.kafka.common.config.ConfigDef"
_REQUIRED = "(required)"
_WORKER = "DistributedConfig"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"

Keys = dict[str, str]
"""Name -> default, as Python writes it."""


def recorded() -> dict[str, Keys]:
    """Return the recorded keys of each class, by its short name."""
    found: dict[str, Keys] = json.loads(RECORD.read_text())
    return found


def defined(java: Any) -> dict[str, Keys]:
    """Return the keys of each class that holds or gives a ConfigDef, by its short name."""
    found: dict[str, Keys] = {}
    default_of = java.java.lang.Class.forName(f"{_DEFINITION}$ConfigKey").getField("defaultValue")
    for name in _candidates():
        owner = java.java.lang.Class.forName(name)
        keys = {key: default for one in _definitions(owner) for key, default in _keys_of(one, default_of)}
        short = name.rpartition(".")[2].partition("$")[0]  # the class around one that only holds the definition
        if short == _WORKER:
            keys |= _keys_of_worker(java)
        if keys:
            found[short] = dict(sorted((found.get(short, {}) | keys).items()))
    return dict(sorted(found.items()))


def _candidates() -> Iterator[str]:
    """Yield the classes whose bytes mention a ConfigDef."""
    for jar in kafka_classpath().split(os.pathsep):
        with zipfile.ZipFile(jar) as classes:
            for name in classes.namelist():
                mentions = name.startswith(PACKAGES) and name.endswith(".class")
                if mentions and _DEFINITION.replace(".", "/").encode() in classes.read(name):
                    yield name.removesuffix(".class").replace("/", ".")


def _definitions(owner: Any) -> Iterator[Any]:
    """Yield the ConfigDefs that a class holds in static fields, and those that its static methods give."""
    for field in owner.getDeclaredFields():
        if _is_static(field) and field.getType().getName() == _DEFINITION:
            field.setAccessible(True)
            yield field.get(None)
    for method in owner.getDeclaredMethods():
        gives = method.getReturnType().getName() == _DEFINITION and method.getParameterCount() == 0
        if gives and _is_static(method):
            method.setAccessible(True)
            yield method.invoke(None, None)


def _is_static(member: Any) -> bool:
    return bool(member.getModifiers() & 8)


def _keys_of(definition: Any, default_of: Any) -> Iterator[tuple[str, str]]:
    for name, key in dict(definition.configKeys()).items():
        yield str(name), said(default_of.get(key)) if key.hasDefault() else _REQUIRED


def said(default: Any) -> str:
    """Say a default value; of Java's objects, what they say of themselves: py4j says which object it is."""
    if isinstance(default, Sequence) and not isinstance(default, str):
        return f"[{', '.join(map(said, default))}]"
    return str(default.toString() if isinstance(default, JavaObject) else default)


def _keys_of_worker(java: Any) -> Keys:
    """Return the keys of the worker's class, which makes its ConfigDef as it is made itself."""
    needed = {"group.id": "g", "bootstrap.servers": "h:1", "key.converter": _BYTES, "value.converter": _BYTES}
    needed |= {f"{what}.storage.topic": what for what in ("config", "offset", "status")}
    config = java.org.apache.kafka.connect.runtime.distributed.DistributedConfig(needed)
    return {str(name): _REQUIRED if name in needed else str(value) for name, value in dict(config.values()).items()}


if __name__ == "__main__":
    with jvm() as running:
        RECORD.write_text(json.dumps(defined(running), indent=1) + "\n")
