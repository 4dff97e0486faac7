"""No key that has an effect in MM2 4.3.1 is listed as one without. That no key is missing: test_kafka_record.py."""

from typing import Any

import pytest

from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from policies.keys.kafka_keys import CONNECTOR
from policies.keys.table import READ_KEYS

pytestmark = [pytest.mark.contract, pytest.mark.full]  # MM2 looks through its class path each time

CONNECT = "org.apache.kafka.connect"
READ: dict[str, set[str]] = {}
for row in READ_KEYS:
    for level in row.each_level:
        READ.setdefault(level, set()).add(row.name)
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
