"""Where a setting of a flow may stand, and which place wins: the layers of mm2-contract 1.2, one method each."""

from engine.property_reader import PropertyReader
from policies.model import FlowName


class FlowKeys:
    """Finds the key that holds for a flow; where none is set, the one that a user would set."""

    def __init__(self, reader: PropertyReader, name: FlowName) -> None:
        self._reader = reader
        self._name = name

    def flow(self, key: str) -> str:
        """Connector settings: flow level wins over top level."""
        return self._first(f"{self._name}.{key}", key)

    def storage(self, key: str) -> str:
        """Storage settings of the worker: top level wins over the target cluster's, whatever one expects."""
        return self._reader.first_key(key, self.worker(key)) or key

    def worker(self, key: str) -> str:
        """Other settings of the worker: the target cluster's level only."""
        return self._first(f"{self._name.target}.{key}")

    def consumer(self, key: str) -> str:
        """The data consumer: cluster level wins over a flow's bare `consumer.`; top level does not reach it."""
        flow, source = self._name, self._name.source
        return self._first(f"{flow}.source.consumer.{key}", f"{source}.consumer.{key}", f"{flow}.consumer.{key}")

    def producer(self, key: str) -> str:
        """The data producer: a flow's `producer.override.` wins over the target cluster's `producer.`."""
        return self._first(f"{self._name}.producer.override.{key}", f"{self._name.target}.producer.{key}")

    def _first(self, *keys: str) -> str:
        return self._reader.first_key(*keys) or keys[0]
