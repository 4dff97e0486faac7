"""Finds the key that sets a value for a flow: one method per level of `engine/CONFIG.md`, with MM2's precedence."""

from collections.abc import Callable

from engine.config.property_reader import PropertyReader
from policies.model import FlowName


class FlowKeys:
    """Finds the key that holds for a flow; if none is set, the key that a user would set."""

    def __init__(self, reader: PropertyReader, name: FlowName) -> None:
        self._reader = reader
        self.name = name
        self.asked: list[tuple[Layer, str]] = []

    def flow(self, key: str) -> str:
        """Connector settings: flow level wins over top level."""
        return self._first(FlowKeys.flow, key, f"{self.name}.{key}", key)

    def filter(self, key: str) -> str:
        """Settings that only a filter class reads: flow level only, because top level passes on connector keys only."""
        return self._first(FlowKeys.filter, key, f"{self.name}.{key}")

    def storage(self, key: str) -> str:
        """Storage settings of the worker: top level wins over the target cluster's level, against expectation."""
        return self._first(FlowKeys.storage, key, key, f"{self.name.target}.{key}")

    def worker(self, key: str) -> str:
        """Other settings of the worker: the target cluster's level only."""
        return self._first(FlowKeys.worker, key, f"{self.name.target}.{key}")

    def consumer(self, key: str) -> str:
        """The data consumer: cluster level wins over a flow's bare `consumer.`; top level does not reach it."""
        flow, cluster = f"{self.name}.source.consumer.{key}", f"{self.name.source}.consumer.{key}"
        return self._first(FlowKeys.consumer, key, flow, cluster, f"{self.name}.consumer.{key}")

    def producer(self, key: str) -> str:
        """The data producer: a flow's `producer.override.` wins over the target cluster's `producer.`."""
        override, cluster = f"{self.name}.producer.override.{key}", f"{self.name.target}.producer.{key}"
        return self._first(FlowKeys.producer, key, override, cluster)

    def source_admin(self, key: str) -> str:
        """The admin client of the source; as for its consumer, cluster level wins over a flow's bare `admin.`."""
        own, cluster = f"{self.name}.source.admin.{key}", f"{self.name.source}.admin.{key}"
        return self._first(FlowKeys.source_admin, key, own, cluster, f"{self.name}.admin.{key}")

    def target_admin(self, key: str) -> str:
        """The admin client of the target."""
        own, cluster = f"{self.name}.target.admin.{key}", f"{self.name.target}.admin.{key}"
        return self._first(FlowKeys.target_admin, key, own, cluster, f"{self.name}.admin.{key}")

    def count_as_honoured_for(self, other: FlowName) -> None:
        """Count every key that this flow asked for as honoured for another flow too, one that is switched off."""
        keys = FlowKeys(self._reader, other)
        for layer, key in self.asked:
            layer(keys, key)

    def _first(self, layer: "Layer", key: str, *places: str) -> str:
        self.asked.append((layer, key))
        return self._reader.first_key(*places) or places[0]


Layer = Callable[[FlowKeys, str], str]
"""A method of FlowKeys that finds keys."""


def level_of(layer: Layer) -> str:
    """Return the level of the keys that a layer finds, as in `policies/keys/read_key.py`."""
    return "admin" if layer.__name__.endswith("_admin") else layer.__name__
