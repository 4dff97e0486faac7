"""Proves the demo's copy: reads every record of some topics on both clusters with a stock client, and compares them."""

import multiprocessing
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor

from actors.demo.digest import PartitionDigest, PartitionVerdict, compare
from actors.demo.reader import Digests, read_topics

NOTHING = PartitionDigest(digests=b"", payload_bytes=0)


class Proof:
    """Two reader processes, started early so that the proof itself starts at once."""

    def __init__(self) -> None:
        # spawn: Ray's threads run in this process, and a forked child would inherit their locks
        self._pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))

    def warm(self) -> None:
        """Let both processes import their modules while the caller continues."""
        for _ in range(2):
            self._pool.submit(_import_reader)

    def run(self, source: str, target: str, names: Mapping[str, str]) -> list[PartitionVerdict]:
        """Read both sides and compare. `names` maps source topic to target topic; addresses are bootstrap servers.

        Raises ProofStalled, LookupError (no such topic), aiokafka's errors.
        """
        ours = self._pool.submit(read_topics, source, list(names))
        theirs = self._pool.submit(read_topics, target, list(names.values()))
        return compare_all(ours.result(), theirs.result(), names)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in list((self._pool._processes or {}).values()):  # at exit Python would wait for a busy reader
            process.terminate()


def compare_all(ours: Digests, theirs: Digests, names: Mapping[str, str]) -> list[PartitionVerdict]:
    source_of = {target: source for source, target in names.items()}
    places = sorted(set(ours) | {(source_of[topic], number) for topic, number in theirs})
    return [
        compare(topic, number, ours.get((topic, number), NOTHING), theirs.get((names[topic], number), NOTHING))
        for topic, number in places
    ]


def _import_reader() -> None:
    import aiokafka  # noqa: F401 - the import is the work
