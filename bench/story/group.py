"""The group: consumers of librdkafka that read a topic, and commit what they have read a few times a second.

A process: `python -m bench.story.group SPEC`. It prints `{"assigned": true}` when its members have all partitions.
A line `end` on its standard input: each member commits and leaves, it writes the numbers that were read (arrays
`numbers_P`) to a file, prints `{"read": ...}` and exits. A record counts as read when it was handed to the application;
before partitions are given up, what was read of them is committed. A failed commit ends the process with an error.
"""

import json
import sys
import threading
import time
from array import array
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.recovery.records import decode_record
from bench.story.judging import Numbers

_POLL_S = 0.1
_COMMIT_S = 0.3


class GroupSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Members of a group that read all partitions of a topic; `file`: for the arrays."""

    bootstrap: str
    topic: str
    partitions: int
    group: str
    members: int
    file: str


class Read:
    """What the members have read: numbers by partition, in their order. A partition has one member at a time."""

    def __init__(self, partitions: int) -> None:
        self.numbers = {at: array("q") for at in range(partitions)}
        self.assigned: set[int] = set()
        self.ending = threading.Event()
        self.failed: list[BaseException] = []


class Member:
    """One consumer, polled in a thread of its own."""

    def __init__(self, spec: GroupSpec, read: Read, consumer: Any, place: Any) -> None:
        self._spec, self._read, self._consumer, self._place = spec, read, consumer, place
        self._uncommitted: dict[int, int] = {}

    def run(self) -> None:
        """Read until told to end, then commit and leave."""
        try:
            self._consumer.subscribe([self._spec.topic], on_assign=self._assigned, on_revoke=self._revoked)
            due_s = time.monotonic() + _COMMIT_S
            while not self._read.ending.is_set():
                self._take(self._consumer.poll(_POLL_S))
                if time.monotonic() > due_s:
                    self._commit()
                    due_s = time.monotonic() + _COMMIT_S
            self._commit()
            self._consumer.close()
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self._read.failed.append(error)
            self._read.ending.set()

    def _take(self, message: Any) -> None:
        if message is None:
            return
        if message.error() is not None:
            raise RuntimeError(str(message.error()))
        partition, number = decode_record(message.value())
        if partition != message.partition():
            raise RuntimeError(f"partition {message.partition()} has a record of partition {partition}")
        self._read.numbers[partition].append(number)
        self._uncommitted[partition] = message.offset() + 1

    def _commit(self) -> None:
        if self._uncommitted:
            offsets = [self._place(self._spec.topic, at, offset) for at, offset in self._uncommitted.items()]
            for one in self._consumer.commit(offsets=offsets, asynchronous=False):
                if one.error is not None:
                    raise RuntimeError(f"commit of {one.topic}-{one.partition}: {one.error}")
            self._uncommitted.clear()

    def _assigned(self, _consumer: Any, places: Any) -> None:
        self._read.assigned |= {one.partition for one in places}

    def _revoked(self, _consumer: Any, places: Any) -> None:
        self._commit()
        self._read.assigned -= {one.partition for one in places}


def read_numbers(file: Path) -> dict[int, Numbers]:
    """Read the file of a group."""
    with np.load(file) as arrays:
        return {int(name.removeprefix("numbers_")): arrays[name] for name in arrays.files}


def main(spec: GroupSpec) -> None:
    """Read until a line says `end`. Raises what a member has failed with."""
    from confluent_kafka import Consumer, TopicPartition

    read = Read(spec.partitions)
    settings = {
        "bootstrap.servers": spec.bootstrap,
        "group.id": spec.group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    members = [Member(spec, read, Consumer(settings), TopicPartition) for _ in range(spec.members)]
    threads = [threading.Thread(target=member.run, daemon=True) for member in members]
    for thread in threads:
        thread.start()
    threading.Thread(target=_listen, args=(read,), daemon=True).start()
    while len(read.assigned) < spec.partitions and not read.ending.wait(_POLL_S):
        pass
    print(json.dumps({"assigned": len(read.assigned) == spec.partitions}), flush=True)
    read.ending.wait()
    for thread in threads:
        thread.join()
    if read.failed:
        raise read.failed[0]
    arrays = {f"numbers_{at}": np.array(numbers, dtype=np.int64) for at, numbers in read.numbers.items()}
    with Path(spec.file).open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    print(json.dumps({"read": sum(map(len, read.numbers.values()))}), flush=True)


def _listen(read: Read) -> None:
    while sys.stdin.readline().strip() not in ("end", ""):
        pass
    read.ending.set()


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=GroupSpec))
