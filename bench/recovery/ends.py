"""Reads end offsets of a topic from every broker of a cluster that answers."""

import contextlib

from bench.kafka_peek import KafkaPeek, PeekError

PATIENCE_S = 2.0


class BrokerEnds:
    """One broker; connects again after every error."""

    def __init__(self, address: str, patience_s: float = PATIENCE_S) -> None:
        self._address, self._patience_s = address, patience_s
        self._peek: KafkaPeek | None = None

    def read(self, topic: str, partitions: int) -> list[int]:
        """Return the high watermark of each partition that this broker leads, 0 for others; none if unreachable."""
        if self._peek is not None:
            with contextlib.suppress(ConnectionError):  # brokers close a connection that rests for ten minutes
                return self._read(topic, partitions)
        return self._read(topic, partitions)

    def _read(self, topic: str, partitions: int) -> list[int]:
        """As `read`. Raises ConnectionError if the broker has closed a connection that was open before."""
        was_open = self._peek is not None
        try:
            if self._peek is None:
                self._peek = KafkaPeek(self._address, timeout_s=self._patience_s)
            return self._peek.end_offsets(topic, partitions)
        except (OSError, PeekError) as error:
            self.close()
            if was_open and isinstance(error, ConnectionError):
                raise
            return []

    def close(self) -> None:
        """Drop the connection."""
        if self._peek is not None:
            with contextlib.suppress(OSError):
                self._peek.close()
        self._peek = None


class ClusterEnds:
    """All brokers of a cluster, asked one after the other."""

    def __init__(self, bootstrap: str) -> None:
        self._brokers = [BrokerEnds(address) for address in bootstrap.split(",")]

    def read(self, topic: str, partitions: int) -> list[int]:
        """Return the high watermark of each partition, 0 if no broker leads it now."""
        ends = [0] * partitions
        for broker in self._brokers:
            for partition, end in enumerate(broker.read(topic, partitions)):
                ends[partition] = max(ends[partition], end)
        return ends

    def close(self) -> None:
        """Drop all connections."""
        for broker in self._brokers:
            broker.close()
