"""Reads the logs of a side with a stock consumer, from where they ended when a round began."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from bench.dr.judge import Log
from bench.dr.records import RecordId, id_of
from bench.errors import BenchError

_ANSWER_S = 60.0
_READ_S = 300.0
_POLL_S = 0.5


@contextmanager
def _consumer(servers: str, group: str = "raymirror-bench-judge") -> Iterator[Any]:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def ends(servers: str, topics: Mapping[str, str]) -> dict[Log, int]:
    """Return the end of every partition of those of the topics that exist. Raises BenchError."""
    from confluent_kafka import KafkaException

    give_up_at = time.monotonic() + _ANSWER_S
    with _consumer(servers) as consumer:
        while True:
            try:
                return _ends(consumer, topics)
            except KafkaException as error:  # leaders move when a broker has been killed
                if time.monotonic() > give_up_at:
                    raise BenchError("dr", f"the ends on {servers} are not known: {error}") from error
            time.sleep(_POLL_S)


def _ends(consumer: Any, topics: Mapping[str, str]) -> dict[Log, int]:
    from confluent_kafka import TopicPartition

    known = consumer.list_topics(timeout=_ANSWER_S).topics
    logs = [(topic, number) for topic in topics if topic in known for number in known[topic].partitions]
    return {log: consumer.get_watermark_offsets(TopicPartition(*log), _ANSWER_S)[1] for log in logs}


def commit(servers: str, group: str, offsets: Mapping[Log, int]) -> None:
    """Commit for a group without members. Raises BenchError."""
    from confluent_kafka import KafkaException, TopicPartition

    give_up_at = time.monotonic() + _ANSWER_S
    left = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
    while left:
        with _consumer(servers, group) as consumer:
            try:
                answers = consumer.commit(offsets=left, asynchronous=False)
                left, why = [one for one in answers if one.error is not None], "a partition is refused"
            except KafkaException as error:
                why = str(error)
        if left and time.monotonic() > give_up_at:
            raise BenchError("dr", f"no commit for {group}: {why}: {left[:3]}")
        if left:
            time.sleep(_POLL_S)


def delete_groups(servers: str, groups: Sequence[str]) -> None:
    """Delete groups without members; those that do not exist are fine. Raises BenchError."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient

    if not groups:
        return
    admin = AdminClient({"bootstrap.servers": servers})  # its answers never come once nobody holds it
    done = admin.delete_consumer_groups(list(groups), request_timeout=_ANSWER_S)
    for group, one in done.items():
        try:
            one.result(2 * _ANSWER_S)
        except TimeoutError:
            raise BenchError("dr", f"{servers} does not say whether group {group} is deleted") from None
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise BenchError("dr", f"group {group} is not deleted on {servers}: {error}") from error


def read(servers: str, topics: Mapping[str, str], first: Mapping[Log, int]) -> dict[Log, list[RecordId]]:
    """Read every log behind `first` to its end; `topics`: the writers' name of each. Raises BenchError, ValueError."""
    from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

    logs = list(ends(servers, topics))
    found: dict[Log, list[RecordId]] = {log: [] for log in logs}
    if not logs:
        return found
    left, give_up_at = set(logs), time.monotonic() + _READ_S
    with _consumer(servers) as consumer:
        consumer.assign([TopicPartition(*log, first.get(log, OFFSET_BEGINNING)) for log in logs])
        while left:
            try:
                batch = consumer.consume(2000, 0.2)
            except KafkaException as error:
                raise BenchError("dr", f"{servers} is not read: {error}") from error
            for one in batch:
                log = one.topic(), one.partition()
                if one.error() is None:
                    left.add(log)
                    found[log].append(id_of(one.value(), topics[log[0]]))
                elif one.error().code() == KafkaError._PARTITION_EOF:
                    left.discard(log)
            if time.monotonic() > give_up_at:
                raise BenchError("dr", f"not read within {_READ_S:.0f} s: {sorted(left)[:3]}")
    return found


def names_on(servers: str, word: str) -> list[str]:
    """Name the topics and groups of a cluster that hold a word. Raises BenchError."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": servers})
    try:
        topics = [name for name in admin.list_topics(timeout=_ANSWER_S).topics if word in name]
        groups = admin.list_consumer_groups(request_timeout=_ANSWER_S).result()
    except KafkaException as error:
        raise BenchError("dr", f"topics and groups of {servers} are not known: {error}") from error
    if groups.errors:
        raise BenchError("dr", f"not all groups of {servers} are known: {groups.errors[0]}")
    return [*topics, *(one.group_id for one in groups.valid if word in one.group_id)]
