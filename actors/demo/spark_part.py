"""Spark's part of the demo, while its mirror still runs: a proof of the copy, a table of lag, questions about both.

    proof on the mirror's Spark -> lag of every partition in the table -> answers in SQL, the report's page

A failure of Spark is a part of the result: the stock client compares all the same.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from actors.demo.answers import SqlResult, ask, copied_to, write_page
from engine.base.errors import MirrorError
from engine.config.storage import Storage
from engine.jobs.proof.model import Progress, ProofOptions, ProofReport
from policies.model import FlowName

LAG_S: Final = 60.0
"""Seconds to wait for the lag of every partition, after the proof: a batch of Spark takes some five seconds."""
LOOK_S: Final = 1.0
Ends = Mapping[tuple[str, int], int]
"""The end offset of each partition (topic, number) on the source."""


class SparkProver(Protocol):
    """Spark that proves flows, such as `actors.jobs.remote_spark.RemoteSpark`."""

    def prove(self, options: ProofOptions, tell: Callable[[Progress], None]) -> ProofReport: ...


class SparkProof(msgspec.Struct, frozen=True, kw_only=True):
    """The proof of the copy by Spark: sums over all partitions."""

    whole: bool
    partitions: int
    records: int
    differences: int
    took_s: float


class SparkOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What Spark has shown. `left_out`: why the demo ran without it; `failure`: why it has not shown all; both or one
    may be empty. `report`: the path of the page.
    """

    left_out: str = ""
    failure: str = ""
    proof: SparkProof | None = None
    answers: tuple[SqlResult, ...] = ()
    report: str = ""


class LagIncomplete(MirrorError):
    """The table of lag lacks partitions, or samples at their end."""

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__(missing)
        self.missing = tuple(missing)

    def __str__(self) -> str:
        return f"after {LAG_S:.0f} s the table of lag does not say that these are copied: {', '.join(self.missing)}"


class SparkPart:
    """Shows what Spark keeps in `storage` about one flow. `pause` is called with the seconds between two looks."""

    def __init__(
        self, flow: FlowName, prover: SparkProver, storage: Storage, began_ms: int, pause: Callable[[float], None]
    ) -> None:
        self._flow, self._prover, self._storage = flow, prover, storage
        self._began_ms, self._pause = began_ms, pause

    def show(self, ends: Ends) -> SparkOutcome:
        """Prove the topics of `ends`, wait for their lag, ask. An error of Spark or of the tables is in the outcome."""
        found = SparkOutcome()
        try:
            found = msgspec.structs.replace(found, proof=self._prove(ends))
            self._await_lag(ends)
            return msgspec.structs.replace(
                found, answers=ask(self._storage), report=write_page(self._storage, self._began_ms)
            )
        except (MirrorError, OSError) as error:
            return msgspec.structs.replace(found, failure=str(error))

    def _prove(self, ends: Ends) -> SparkProof:
        topics = tuple(sorted({topic for topic, _ in ends}))
        report = self._prover.prove(ProofOptions(flow=self._flow, topics=topics), lambda _progress: None)
        return SparkProof(
            whole=report.whole,
            partitions=len(report.lanes),
            records=sum(lane.records for lane in report.lanes),
            differences=report.found,
            took_s=report.took_s,
        )

    def _await_lag(self, ends: Ends) -> None:
        """Wait until the table of lag says of every partition that all is copied. Raises LagIncomplete."""
        deadline = time.monotonic() + LAG_S
        while missing := missing_in(copied_to(self._storage), ends):
            if time.monotonic() > deadline:
                raise LagIncomplete(missing)
            self._pause(LOOK_S)


def missing_in(copied: Ends, ends: Ends) -> list[str]:
    """Name the partitions of which the table of lag has no sample at their end."""
    return [
        f"{topic}-{number}" for (topic, number), end in sorted(ends.items()) if copied.get((topic, number), 0) < end
    ]
