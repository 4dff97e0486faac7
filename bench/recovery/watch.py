"""The watch: asks every broker of both clusters for end offsets, each on its own thread, and stores what grew.

A process: `python -m bench.recovery.watch SPEC`. It prints `{"watching": true}`; at the end of its standard input it
writes all samples to a file, prints `{"file": ...}` and exits. It asks each broker directly, with a stateless client,
so that neither the recovery of a consumer nor the proxies of the mirror change what it sees.
"""

import json
import sys
import threading
import time
from itertools import chain
from pathlib import Path

import msgspec

from bench.recovery.ends import BrokerEnds
from bench.recovery.gaps import Sample

EVERY_S = 0.05
_PATIENCE_S = 1.0
_END_S = 10.0


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One topic on one cluster."""

    bootstrap: str
    topic: str


class WatchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What is watched, and the file of the samples. `partitions` may be more than exist yet; `control` is the topic of
    the control, if there is one.
    """

    source: Side
    target: Side
    partitions: int
    control: Side | None = None
    file: str


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of every partition, in no order; monotonic seconds and high watermarks.

    `answers` has the instant of every answer, by the address of its broker.
    """

    source: dict[int, list[Sample]]
    target: dict[int, list[Sample]]
    control: dict[int, list[Sample]]
    answers: dict[str, list[float]]


def read_seen(file: Path) -> Seen:
    """Read the file of a watch."""
    return msgspec.msgpack.decode(file.read_bytes(), type=Seen)


class _Watcher(threading.Thread):
    """Asks one broker about one topic until it is stopped."""

    def __init__(self, address: str, topic: str, partitions: int, stopping: threading.Event) -> None:
        super().__init__(daemon=True)
        self.samples: dict[int, list[Sample]] = {partition: [] for partition in range(partitions)}
        self.address = address
        self.answers: list[float] = []
        self._broker = BrokerEnds(address, _PATIENCE_S)
        self._topic, self._partitions, self._stopping = topic, partitions, stopping

    def run(self) -> None:
        last = [0] * self._partitions
        while not self._stopping.is_set():
            asked_at = time.monotonic()
            ends = self._broker.read(self._topic, self._partitions)
            now = time.monotonic()
            if ends:
                self.answers.append(now)
            for partition, end in enumerate(ends):
                if end != last[partition]:
                    last[partition] = end
                    if end:
                        self.samples[partition].append((now, end))
            self._stopping.wait(max(0.0, asked_at + EVERY_S - now))
        self._broker.close()


def main(spec: WatchSpec) -> None:
    """Watch until standard input ends."""
    stopping = threading.Event()
    watchers = {
        name: [_Watcher(address, side.topic, spec.partitions, stopping) for address in side.bootstrap.split(",")]
        for name, side in (("source", spec.source), ("target", spec.target), ("control", spec.control))
        if side is not None
    }
    for watcher in chain.from_iterable(watchers.values()):
        watcher.start()
    print(json.dumps({"watching": True}), flush=True)
    sys.stdin.read()
    stopping.set()
    merged: dict[str, dict[int, list[Sample]]] = {"control": {}}
    answers = {watcher.address: watcher.answers for watcher in (*watchers["source"], *watchers["target"])}
    for name, of_side in watchers.items():
        merged[name] = {partition: [] for partition in range(spec.partitions)}
        for watcher in of_side:
            watcher.join(_END_S)
            for partition, samples in watcher.samples.items():
                merged[name][partition] += samples
    Path(spec.file).write_bytes(msgspec.msgpack.encode(Seen(**merged, answers=answers)))
    print(json.dumps({"file": spec.file}), flush=True)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=WatchSpec))
