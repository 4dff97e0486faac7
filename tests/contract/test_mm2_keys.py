"""raymirror's tables of Kafka's keys compared with Kafka 4.3.1's own classes.

No key is missing, none is invented, and no key that has an effect is listed as one without.
"""

from typing import Any

import pytest

from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from policies.keys.kafka_keys import ADMIN, CLIENT_COMMON, CONNECTOR, CONSUMER, FAMILIES, PRODUCER, WORKER
from policies.keys.table import READ_KEYS

pytestmark = [pytest.mark.contract, pytest.mark.full]  # MM2 looks through its class path each time

CONNECT = "org.apache.kafka.connect"
READ: dict[str, set[str]] = {}
for row in READ_KEYS:
    for level in row.each_level:
        READ.setdefault(level, set()).add(row.name)
NOT_IN_4_3 = {
    "CONNECTOR": {"add.source.alias.to.metrics", "use.incremental.alter.configs"},
    "WORKER": {
        "internal.key.converter",
        "internal.value.converter",
        "rest.host.name",
        "rest.port",
        "offset.storage.file.filename",
    },
    "CONSUMER": {"internal.leave.group.on.close", "retries", "auto.include.jmx.reporter"},
    "PRODUCER": {"internal.auto.downgrade.txn.commit", "default.api.timeout.ms", "auto.include.jmx.reporter"},
    "ADMIN": {"auto.include.jmx.reporter"},
    "CLIENT_COMMON": set(),
}
"""Of former releases, of other workers, and of the table that all clients share."""


def defined(java: Any, owner: str, field: str) -> set[str]:
    """Return the names of a ConfigDef that a class holds."""
    found = java.java.lang.Class.forName(owner).getDeclaredField(field)
    found.setAccessible(True)
    return {str(name) for name in found.get(None).names()}


def returned(java: Any, owner: str, method: str) -> set[str]:
    """Return the names of a ConfigDef that a static method gives."""
    methods = java.java.lang.Class.forName(owner).getDeclaredMethods()
    (found,) = (one for one in methods if one.getName() == method and one.getParameterCount() == 0)
    found.setAccessible(True)
    return {str(name) for name in found.invoke(None, None).names()}


def distributed(java: Any) -> set[str]:
    """Return the names of the worker's own class, which makes its ConfigDef as it is made itself."""
    bytes_ = f"{CONNECT}.converters.ByteArrayConverter"
    needed = {"group.id": "g", "bootstrap.servers": "h:1", "key.converter": bytes_, "value.converter": bytes_}
    needed |= {f"{what}.storage.topic": what for what in ("config", "offset", "status")}
    config = java.org.apache.kafka.connect.runtime.distributed.DistributedConfig(needed)
    return {str(name) for name in config.values().keySet()}


def kafkas(java: Any, table: str, common: set[str]) -> set[str]:
    package = java.org.apache.kafka.clients
    mirror = f"{CONNECT}.mirror"
    match table:
        case "CLIENT_COMMON":
            return common
        case "CONSUMER":
            found = {str(name) for name in package.consumer.ConsumerConfig.configDef().names()}
        case "PRODUCER":
            found = {str(name) for name in package.producer.ProducerConfig.configDef().names()}
        case "ADMIN":
            found = {str(name) for name in package.admin.AdminClientConfig.configDef().names()}
        case "CONNECTOR":
            kinds = ("Source", "Checkpoint", "Heartbeat")
            found = set().union(
                *(defined(java, f"{mirror}.Mirror{kind}Config", "CONNECTOR_CONFIG_DEF") for kind in kinds),
                *(defined(java, f"{mirror}.Mirror{kind}TaskConfig", "TASK_CONFIG_DEF") for kind in kinds[:2]),
                returned(java, f"{CONNECT}.runtime.SourceConnectorConfig", "configDef"),
            )
        case _:
            found = distributed(java) | returned(java, f"{mirror}.MirrorMakerConfig", "config")
    return found - common


@pytest.mark.parametrize(
    ("table", "rulings", "levels"),
    [
        ("CLIENT_COMMON", CLIENT_COMMON, ("cluster",)),
        ("CONSUMER", CONSUMER, ("consumer",)),
        ("PRODUCER", PRODUCER, ("producer",)),
        ("ADMIN", ADMIN, ()),
        ("CONNECTOR", CONNECTOR, ("flow", "filter", "top")),
        ("WORKER", WORKER, ("worker", "storage", "top")),
    ],
)
def test_every_key_of_kafkas_is_read_or_has_its_ruling(
    java: Any, table: str, rulings: dict[str, object], levels: tuple[str, ...]
) -> None:
    common = defined(java, f"{CONNECT}.mirror.MirrorClientConfig", "CLIENT_CONFIG_DEF")
    known = kafkas(java, table, common)
    read = set().union(*(READ[level] for level in levels))
    families = tuple(begin for begin, _ in FAMILIES)
    assert {name for name in known - read - rulings.keys() if not name.startswith(families)} == set()
    assert rulings.keys() - known == NOT_IN_4_3[table]


BASE = {"clusters": "A, B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "A->B.enabled": "true"}
BY_VALUE = {"enabled", "emit.heartbeats.enabled"}
"""What MM2 reads by its value as it makes pairs of clusters, so it cannot be marked."""


def reached(java: Any, configs: dict[str, str]) -> set[str]:
    """Return the keys of a file whose values reach a connector of A->B or its worker in MM2."""
    whole = java.org.apache.kafka.connect.mirror.MirrorMakerConfig({**BASE, **configs})
    flow = java.org.apache.kafka.connect.mirror.SourceAndTarget("A", "B")
    values = set(dict(whole.workerConfig(flow)).values())
    for kind in ("Source", "Checkpoint", "Heartbeat"):
        connector = java.java.lang.Class.forName(f"{CONNECT}.mirror.Mirror{kind}Connector")
        values |= set(dict(whole.connectorBaseConfig(flow, connector)).values())
    return {key for key, value in configs.items() if value in values}


def told_to_reach_nothing(key: str) -> bool:
    text = "".join(f"{name} = {value}\n" for name, value in {**BASE, "raymirror.unsupported": "warn"}.items())
    config = read_config(parse_properties(f"{text}{key} = 12345\n", "f"))
    return any(one.key == key and "has no effect" in one.what for one in config.warnings)


def test_what_is_said_to_reach_nothing_at_top_level_reaches_nothing(java: Any) -> None:
    below = {name for level in ("consumer", "producer", "worker", "filter") for name in READ[level]}
    clients = {f"{client}.{name}" for client in ("consumer", "producer") for name in READ[client]}
    names = {*below, *clients, *CONNECTOR, *READ["flow"], *READ["storage"]} - BY_VALUE
    marks = {name: str(50_000 + number) for number, name in enumerate(sorted(names)) if "raymirror" not in name}
    theirs = reached(java, marks)
    assert {"admin.timeout.ms", "consumer.poll.timeout.ms", "errors.log.enable", "topics"} <= theirs
    told = {name for name in below | clients | CONNECTOR.keys() if told_to_reach_nothing(name)}
    assert told & theirs == set()
    assert told >= (below | clients) - theirs
    assert told


@pytest.mark.parametrize("name", ["acks", "request.timeout.ms"])
def test_a_flows_producer_is_not_that_of_the_data(java: Any, name: str) -> None:
    """MM2 makes the producer of the data of the worker's `producer.` and the connector's `producer.override.`."""
    whole = java.org.apache.kafka.connect.mirror.MirrorMakerConfig({**BASE, f"A->B.producer.{name}": "777"})
    flow = java.org.apache.kafka.connect.mirror.SourceAndTarget("A", "B")
    connector = java.java.lang.Class.forName(f"{CONNECT}.mirror.MirrorSourceConnector")
    base = dict(whole.connectorBaseConfig(flow, connector))
    assert "777" not in dict(whole.workerConfig(flow)).values()
    assert [key for key, value in base.items() if value == "777"] == [f"producer.{name}"]
    text = "".join(f"{key} = {value}\n" for key, value in BASE.items())
    (warning,) = read_config(parse_properties(f"{text}A->B.producer.{name} = 777\n", "f")).warnings
    assert "never reaches the producer of the data, as in MM2" in warning.what
