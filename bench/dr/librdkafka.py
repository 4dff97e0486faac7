"""Writers and readers with librdkafka's clients, told what to do line by line: see clients.py for the words.

A process: `python -m bench.dr.librdkafka`.
"""

import json
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.dr.records import key_of, value_of

IN_TRANSACTION, ROLLED_BACK = 20, 7
"""Records of a transaction; every seventh transaction is rolled back. `Client.java` has the same."""
_ANSWER_S = 120.0
_LOOK_S = 0.02
_QUIET_S = 0.7
"""A reader that has reached every end and read nothing for so long has read all."""


class Work(threading.Thread, ABC):
    """One writer or reader; `why`: the error that ended it."""

    def __init__(self, name: str, file: str) -> None:
        super().__init__(daemon=True)
        self.id, self.file = name, Path(file)
        self.ends = self.finishes = False
        self.why, self.count = "", 0

    def await_count(self, wanted: int) -> None:
        """Wait until it has written or read so many records, or has ended."""
        give_up_at = time.monotonic() + _ANSWER_S
        while self.count < wanted and self.is_alive() and time.monotonic() < give_up_at:
            time.sleep(_LOOK_S)

    def run(self) -> None:
        """Work, and keep the error for the answer."""
        try:
            self.work()
        except Exception as error:  # noqa: BLE001 - the bench is told, and judges what was acknowledged
            self.why = repr(error)

    @abstractmethod
    def work(self) -> None:
        """Write or read until told to end."""


class Writer(Work):
    """Writes numbered records, in turn over all partitions, until its gate file exists; notes the fate of each."""

    def __init__(self, name: str, servers: str, per_s: str, gate: str, tx: str, file: str, topics: str) -> None:
        super().__init__(name, file)
        self._settings: dict[str, Any] = {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5}
        if tx != "-":
            self._settings["transactional.id"] = tx
        self._per_s, self._gate, self._tx = float(per_s), gate, tx != "-"
        pairs = (one.split("=") for one in topics.split(","))
        self._places = [(topic, number) for topic, count in pairs for number in range(int(count))]
        self._numbers = [0] * len(self._places)
        self._fates: list[str] = []

    def work(self) -> None:
        """See Work."""
        from confluent_kafka import Producer

        producer = Producer(self._settings)
        try:
            if self._tx:
                producer.init_transactions(_ANSWER_S)
            self._write(producer)
            if left := producer.flush(_ANSWER_S):
                self.why = f"{left} records without an answer"
        finally:
            self.file.write_text("\n".join(self._fates))

    def _write(self, producer: Any) -> None:
        began, done, turn = time.monotonic(), 0, 0
        while not self.ends and (self._gate == "-" or not Path(self._gate).exists()):
            due = (time.monotonic() - began) * self._per_s
            if not self._tx:
                while done < due:
                    self._send(producer, done % len(self._places), None)
                    done += 1
            elif done < due:
                self._transact(producer, turn)
                turn, done = turn + 1, done + IN_TRANSACTION
            if due - done > self._per_s:  # no burst for lost time
                began += (due - done) / self._per_s
            producer.poll(0)
            time.sleep(0.005)

    def _send(self, producer: Any, at: int, sent: list[str] | None) -> None:
        topic, partition = self._places[at]
        number = self._numbers[at]
        self._numbers[at] += 1
        name = f"{topic} {partition} {number}"
        key, value = key_of(self.id, partition, number), value_of(self.id, partition, number)
        if sent is not None:
            sent.append(name)
            producer.produce(topic, value, key, partition)
            return

        def on_delivery(error: object, _message: object) -> None:
            if error is not None:
                self.why = str(error)
            self._note("+" if error is None else "?", [name])

        producer.produce(topic, value, key, partition, on_delivery=on_delivery)

    def _note(self, fate: str, names: Sequence[str]) -> None:
        self._fates += [f"{fate} {name}" for name in names]
        self.count = len(self._fates)

    def _transact(self, producer: Any, turn: int) -> None:
        from confluent_kafka import KafkaException

        sent: list[str] = []
        fate = "?"
        try:
            producer.begin_transaction()
            try:
                for one in range(IN_TRANSACTION):
                    self._send(producer, (turn * IN_TRANSACTION + one) % len(self._places), sent)
                if turn % ROLLED_BACK != ROLLED_BACK - 1:
                    _until_answered(producer.commit_transaction)
                    fate = "+"
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise  # a broker that dies makes the client roll back
            if fate == "?":
                # it may not have told the broker of a partition yet, which then ends the client (librdkafka issue 4849)
                producer.flush(_ANSWER_S)
                _until_answered(producer.abort_transaction)
                fate = "-"
        finally:
            self._note(fate, sent)


def _until_answered(work: Callable[[float], None]) -> None:
    """End a transaction, again while a broker does not answer: the client may be asked as often as it takes."""
    from confluent_kafka import KafkaException

    give_up_at = time.monotonic() + _ANSWER_S
    while True:
        try:
            return work(_ANSWER_S)
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > give_up_at:
                raise


class Reader(Work):
    """Reads topics as a member of a group, commits what it has read, and notes each record."""

    def __init__(self, name: str, servers: str, group: str, file: str, topics: str) -> None:
        super().__init__(name, file)
        self._settings = {
            "bootstrap.servers": servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
        self._topics = topics.split(",")
        self._at_end: set[tuple[str, int]] = set()

    def work(self) -> None:
        """See Work."""
        from confluent_kafka import Consumer

        consumer = Consumer(self._settings)
        consumer.subscribe(self._topics)
        heard = time.monotonic()
        try:
            with self.file.open("w") as out:
                while not self.ends:
                    if self._read(consumer, out):
                        heard = time.monotonic()
                    elif self.finishes and time.monotonic() - heard > _QUIET_S and self._has_read_all(consumer):
                        break
        finally:
            consumer.close()

    def _read(self, consumer: Any, out: Any) -> int:
        from confluent_kafka import KafkaError, KafkaException

        count = 0
        for one in consumer.consume(1000, 0.1):
            place, error = (one.topic(), one.partition()), one.error()
            if error is None:
                self._at_end.discard(place)
                text = (one.value() or b"-").split(b"|")[0].decode()
                out.write(f"{place[0]} {place[1]} {one.offset()} {text}\n")
                count += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end.add(place)
            elif error.fatal():
                raise KafkaException(error)
        if count:
            self._commit(consumer)
        self.count += count
        return count

    @staticmethod
    def _commit(consumer: Any) -> None:
        """Commit, again while the group's coordinator moves, as Java's client does by itself."""
        from confluent_kafka import KafkaError, KafkaException

        passing = (
            KafkaError.NOT_COORDINATOR,
            KafkaError.COORDINATOR_NOT_AVAILABLE,
            KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
            KafkaError.REQUEST_TIMED_OUT,
            KafkaError._TIMED_OUT,
            KafkaError._TRANSPORT,
            KafkaError._WAIT_COORD,
        )
        give_up_at = time.monotonic() + _ANSWER_S
        while True:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError._NO_OFFSET:  # an earlier try has committed them
                    return
                if code not in passing or time.monotonic() > give_up_at:
                    raise
                time.sleep(_LOOK_S)
            else:
                return

    def _has_read_all(self, consumer: Any) -> bool:
        held = {(one.topic, one.partition) for one in consumer.assignment()}
        return bool(held) and held <= self._at_end


def main() -> None:
    """Do what the lines say."""
    works: dict[str, Work] = {}
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        match line.split():
            case ["write", *words]:
                works[words[0]] = Writer(*words)
                works[words[0]].start()
            case ["read", *words]:
                works[words[0]] = Reader(*words)
                works[words[0]].start()
            case ["await", name, count]:
                works[name].await_count(int(count))
                _say(works[name])
            case ["stop", name]:
                works[name].ends = True
                _tell(works.pop(name))
            case ["finish", name]:
                works[name].finishes = True
                _tell(works.pop(name))
            case other:
                raise ValueError(f"no such words: {other}")


def _tell(work: Work) -> None:
    work.join()
    _say(work)


def _say(work: Work) -> None:
    print(json.dumps({"id": work.id, "count": work.count, "why": work.why}), flush=True)


if __name__ == "__main__":
    main()
