"""The places of a key are those where the readers look for it."""

import pytest

from engine.config.file.properties import parse_properties
from engine.config.flow_keys import FlowKeys, Layer
from engine.config.property_reader import PropertyReader
from policies.keys.places import places
from policies.model import FlowName

FLOW = FlowName("east", "west")


class Looked(PropertyReader):
    """Remembers where it was looked."""

    def __init__(self) -> None:
        super().__init__(parse_properties("", "f"))
        self.keys: tuple[str, ...] = ()

    def first_key(self, *keys: str) -> str | None:
        self.keys = keys
        return None


@pytest.mark.parametrize(
    ("layer", "level", "side"),
    [
        (FlowKeys.flow, "flow", "source"),
        (FlowKeys.filter, "filter", "source"),
        (FlowKeys.storage, "storage", "source"),
        (FlowKeys.worker, "worker", "source"),
        (FlowKeys.consumer, "consumer", "source"),
        (FlowKeys.producer, "producer", "source"),
        (FlowKeys.source_admin, "admin", "source"),
        (FlowKeys.target_admin, "admin", "target"),
    ],
)
def test_a_key_of_a_flow_is_looked_for_where_the_table_says(layer: Layer, level: str, side: str) -> None:
    reader = Looked()
    layer(FlowKeys(reader, FLOW), "a.key")
    assert places(level, "a.key", FLOW, side) == reader.keys


def test_a_key_of_a_cluster_or_of_the_mirror() -> None:
    assert places("cluster", "a.key", FLOW, "target") == ("west.a.key", "a.key")
    assert places("top", "a.key", FLOW) == ("a.key",)
