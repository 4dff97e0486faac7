"""Produces many records with librdkafka, and waits until all are acknowledged."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from bench.errors import BenchError

_FLUSH_S = 600.0
_POLLED = 1000


class Sent(NamedTuple):
    """A record, and where it goes."""

    topic: str
    partition: int
    value: bytes
    key: bytes | None = None


def produce_all(address: str, records: Iterable[Sent], settings: Mapping[str, Any]) -> None:
    """Produce records; raises BenchError if one is not acknowledged."""
    from confluent_kafka import Producer

    # brokers make the logs of thousands of new partitions for longer than the default of 30 s
    patient = {"bootstrap.servers": address, "topic.metadata.propagation.max.ms": int(_FLUSH_S * 1000)}
    producer, failed = Producer({**patient, **settings}), list[str]()

    def answered(error: object, _message: object) -> None:
        if error is not None:
            failed.append(str(error))

    for number, one in enumerate(records):
        while True:
            try:
                producer.produce(one.topic, one.value, one.key, partition=one.partition, on_delivery=answered)
                break
            except BufferError:
                producer.poll(0.1)
        if number % _POLLED == 0:
            producer.poll(0)
    if (left := producer.flush(_FLUSH_S)) or failed:
        raise BenchError("dataset", f"{left} records not acknowledged, refused: {failed[:3]}")
