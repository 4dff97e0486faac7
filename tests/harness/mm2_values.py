"""What MM2's own classes make of the files of the corpus: the effective value of each key, and the record of them.

python -m tests.harness.mm2_values    writes the record anew, after a change of the corpus or of Kafka's version

A value is named by its key. Before the keys of clients stands the client: `consumer.` and `producer.` are those of the
data, `source.admin.` and `target.admin.` those of MM2's source connector. Before a key of security stands the client
and `security.`; such values are as the file has them, with placeholders. `names.` are topics that the policy names.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from engine.config.secrets import SECURITY_KEYS
from policies.keys.table import READ_KEYS
from tests.harness.jvm import jvm
from tests.harness.kafka_classes import said

CORPUS = Path(__file__).parents[1] / "contract" / "corpus"
RECORD = CORPUS / "mm2-4.3.1-values.json"
PLAIN = "docs-one-way"
"""The file that sets nothing: the record of any other file has only what differs from it."""
ROLES = ("consumer", "producer", "source.admin", "target.admin")
REFUSES = "refuses"
"""The name of the value that says why MM2 does not start with a file, or with a flow of it."""

NO_CHECKPOINTS = "no checkpoints"
"""The name of the value that says why MM2's checkpoint connector does not start, while the flow copies."""

_KAFKA = "org.apache.kafka"
_MIRROR = f"{_KAFKA}.connect.mirror"
_BYTES = f"{_KAFKA}.common.serialization.ByteArray"
_CONNECTORS = ("Source", "Checkpoint", "Heartbeat")
_CLIENTS = {
    "consumer": "consumer.ConsumerConfig",
    "producer": "producer.ProducerConfig",
    "admin": "admin.AdminClientConfig",
}
_QUICK = {"plugin.discovery": "service_load"}
"""Else each MirrorMakerConfig looks for plugins in all classes of the class path. No connector sees the key."""
_GONE = "None"

Values = dict[str, str]
"""Name -> effective value."""


def files() -> list[Path]:
    """Return the files of the corpus."""
    return sorted(CORPUS.glob("*.properties"))


def names_of(*levels: str) -> list[str]:
    """Return the names of Kafka's keys that raymirror reads at some levels."""
    return [row.name for row in READ_KEYS if not row.is_own and not set(levels).isdisjoint(row.each_level)]


def recorded() -> dict[str, dict[str, Values]]:
    """Return the record: file -> flow -> values; a file that MM2 refuses has one "flow" without a name."""
    found = json.loads(RECORD.read_text())
    plain: Values = found["plain"]
    return {
        name: {flow: _whole(plain, values, flow) for flow, values in flows.items()}
        for name, flows in found["files"].items()
    }


def _whole(plain: Values, values: Values, flow: str) -> Values:
    source, _, target = flow.partition("->")
    base = {} if REFUSES in values else {name: value.format(A=source, B=target) for name, value in plain.items()}
    return {name: value for name, value in (base | values).items() if value != _GONE}


def record_of(java: Any) -> dict[str, Any]:
    """Return what is to be recorded: the values of the plain flow, and of each file what differs from them."""
    whole = {path.stem: values_of(java, path) for path in files()}
    ((flow, values),) = whole[PLAIN].items()
    source, _, target = flow.partition("->")
    plain = {name: value.replace(source, "{A}").replace(target, "{B}") for name, value in values.items()}
    found = {
        name: {flow: _changes(plain, values, flow) for flow, values in flows.items()} for name, flows in whole.items()
    }
    return {"plain": dict(sorted(plain.items())), "files": found}


def _changes(plain: Values, values: Values, flow: str) -> Values:
    if REFUSES in values:
        return values
    base = _whole(plain, {}, flow)
    changed = {name: value for name, value in values.items() if base.get(name) != value}
    return dict(sorted((changed | dict.fromkeys(base.keys() - values.keys(), _GONE)).items()))


def values_of(java: Any, path: Path) -> dict[str, Values]:
    """Return the values of each flow that MM2 would copy with a file, as its driver makes them."""
    properties = java.java.util.Properties()
    try:
        properties.load(java.java.io.FileInputStream(str(path)))
        raw = {str(key): str(properties.getProperty(key)) for key in properties.stringPropertyNames()}
        whole = java.org.apache.kafka.connect.mirror.MirrorMakerConfig({**raw, **_QUICK})
        pairs = sorted((str(pair), pair) for pair in whole.clusterPairs())
    except Py4JJavaError as error:
        return {"": {REFUSES: _reason(error)}}
    found = {}
    for name, pair in pairs:
        try:
            values = _of_pair(java, whole, pair)
        except Py4JJavaError as error:
            values = {REFUSES: _reason(error)} if raw.get(f"{name}.enabled", "false").strip() == "true" else None
        if values is not None:
            found[name] = values
    return found


def _reason(error: Py4JJavaError) -> str:
    return str(error.java_exception.getMessage()).splitlines()[0]


def _of_pair(java: Any, whole: Any, pair: Any) -> Values | None:
    """Return the values of a pair of clusters; None if MM2 copies nothing of it."""
    bases = {kind: dict(_base(java, whole, pair, kind)) for kind in _CONNECTORS}
    typed = {kind: getattr(_package(java), f"Mirror{kind}Config")(base) for kind, base in bases.items()}
    source, base = typed["Source"], bases["Source"]
    if not source.getBoolean("enabled"):
        return None
    if complaints := list(_complaints(java, "Source", base)):
        return {REFUSES: "; ".join(complaints)}
    worker = java.org.apache.kafka.connect.runtime.distributed.DistributedConfig(whole.workerConfig(pair))
    found = _of_connectors(typed.values()) | _of_worker(worker)
    found["use.defaults.from"] = base.get("use.defaults.from", "target")
    found["replication.policy.separator"] = base.get("replication.policy.separator", ".")
    if complaints := list(_complaints(java, "Checkpoint", bases["Checkpoint"])):
        found[NO_CHECKPOINTS] = "; ".join(complaints)
    found |= _names(java, source, str(pair.source()), str(pair.target()))
    for role, raw in _of_roles(java, source, worker, base).items():
        found |= _of_client(java, role, raw, str(pair))
    return found


def _package(java: Any) -> Any:
    return java.org.apache.kafka.connect.mirror


def _base(java: Any, whole: Any, pair: Any, kind: str) -> Any:
    return whole.connectorBaseConfig(pair, java.java.lang.Class.forName(f"{_MIRROR}.Mirror{kind}Connector"))


def _complaints(java: Any, kind: str, base: Mapping[str, str]) -> Iterator[str]:
    """Yield what a connector says against its settings when Connect has them checked, before a start."""
    connector = getattr(_package(java), f"Mirror{kind}Connector")()
    for one in connector.validate(dict(base)).configValues():
        yield from (str(message) for message in one.errorMessages())


def _of_connectors(typed: Iterable[Any]) -> Values:
    found: Values = {}
    for config in typed:
        values = dict(config.values())
        found |= {name: plain(values[name]) for name in names_of("flow") if name in values}
    return found


def _of_worker(worker: Any) -> Values:
    values = dict(worker.values())
    return {name: plain(values[name]) for name in names_of("storage", "worker")}


def plain(value: Any) -> str:
    """Say a typed value of Java as a file would."""
    text = str(value).lower() if isinstance(value, bool) else said(value)
    return text.removeprefix("class ").removeprefix("[").removesuffix("]")


def _names(java: Any, source: Any, alias: str, other: str) -> Values:
    policy = _call(java, source, "replicationPolicy")
    return {
        "names.remote": str(policy.formatRemoteTopic(alias, "t.u")),
        "names.heartbeats": str(policy.heartbeatsTopic()),
        "names.checkpoints": str(policy.checkpointsTopic(alias)),
        "names.offset-syncs": str(policy.offsetSyncsTopic(other)),
    }


def _of_roles(java: Any, source: Any, worker: Any, base: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
    """Return the settings of each client before they are typed.

    The producer of the data is Connect's: its own settings, the worker's `producer.`, the connector's overrides
    (Worker.baseProducerConfigs).
    """
    connects = {"bootstrap.servers": worker.bootstrapServers(), "enable.idempotence": "false", "acks": "all"}
    connects |= {"max.in.flight.requests.per.connection": "1", "delivery.timeout.ms": str(2**31 - 1)}
    overrides = {
        name.removeprefix("producer.override."): value
        for name, value in base.items()
        if name.startswith("producer.override.")
    }
    return {
        "consumer": dict(_call(java, source, "sourceConsumerConfig", "role")),
        "producer": {**connects, **dict(worker.originalsWithPrefix("producer.")), **overrides},
        "source.admin": dict(_call(java, source, "sourceAdminConfig", "role")),
        "target.admin": dict(_call(java, source, "targetAdminConfig", "role")),
    }


def _of_client(java: Any, role: str, raw: Mapping[str, Any], flow: str) -> Values:
    client = role.rpartition(".")[2]
    whole = dict(raw)
    if client != "admin":
        ways = ("deserializer",) if client == "consumer" else ("serializer",)
        whole |= {f"{what}.{way}": f"{_BYTES}{way.capitalize()}" for what in ("key", "value") for way in ways}
    package, _, name = _CLIENTS[client].partition(".")
    values = dict(getattr(getattr(java.org.apache.kafka.clients, package), name)(whole).values())
    found = {f"{role}.{key}": plain(values[key]) for key in names_of(client)}
    found[f"{role}.client.id"] = _own_id(str(raw.get("client.id", "")), flow)
    security = {key: str(raw[key]) for key in ("bootstrap.servers", *SECURITY_KEYS) if raw.get(key) is not None}
    return found | {f"{role}.security.{key}": value for key, value in security.items()}


def _own_id(client_id: str, flow: str) -> str:
    """Return the part of a client id that the user chose; behind it MM2 names connector and role."""
    return "" if client_id.startswith(f"{flow}|") else client_id.partition(f"|{flow}|")[0]


def _call(java: Any, config: Any, name: str, *arguments: str) -> Any:
    """Call a method that only MM2's own package may call."""
    methods = config.getClass().getSuperclass().getDeclaredMethods()
    method = next(one for one in methods if one.getName() == name and not one.getModifiers() & 8)
    method.setAccessible(True)
    given = java.java.lang.reflect.Array.newInstance(java.java.lang.Class.forName("java.lang.Object"), len(arguments))
    for place, argument in enumerate(arguments):
        java.java.lang.reflect.Array.set(given, place, argument)
    return method.invoke(config, given)


if __name__ == "__main__":
    with jvm() as running:
        RECORD.write_text(json.dumps(record_of(running), indent=1) + "\n")
