"""Spark's part of the demo: the proof, the wait for the table of lag, the two answers, the page; and its failures."""

import tempfile
from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import pytest

from actors.demo import spark_part
from actors.demo.answers import PAGE_PREFIX, QUESTIONS
from actors.demo.spark_part import SparkOutcome, SparkPart, SparkProof
from actors.jobs.remote_spark import NoSpark
from engine.base.clock import wall_ms
from engine.jobs.proof.model import LaneReport, Progress, ProofOptions, ProofReport
from policies.model import FlowName
from tests.unit.engine.jobs.sql.stored import HOUR_MS, StoredTables

FLOW = FlowName("A", "B")
ENDS = {("clicks", 0): 50, ("orders", 0): 70, ("orders", 1): 0}


class Prover:
    """Stores a proof of `orders`, as Spark does, unless it is refused."""

    def __init__(self, stored: StoredTables, refusal: str = "") -> None:
        self.stored, self.refusal = stored, refusal
        self.asked: list[ProofOptions] = []

    def prove(self, options: ProofOptions, _tell: Callable[[Progress], None]) -> ProofReport:
        if self.refusal:
            raise NoSpark(self.refusal)
        self.asked.append(options)
        self.stored.proof(0, "p1", 70)
        lanes = [
            LaneReport(topic=topic, partition=0, target_topic=f"A.{topic}", records=end)
            for (topic, _), end in ENDS.items()
        ]
        return ProofReport(
            run="p1", flow=FLOW, began_ms=0, took_s=2.5, read_s=2.0, cores=1, lanes=tuple(lanes), differences=()
        )


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredTables:
    """A storage in which the lag of one of two partitions is at its end."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = StoredTables(tmp_path / "store", wall_ms())
    made.lag(
        made.window(HOUR_MS, position=40, lag_records_max=30, lag_ms_max=2_500, records=40, latency_mean_ms=500),
        made.window(HOUR_MS - 30_000, position=70, lag_records_max=9, lag_ms_max=80, records=0),
        made.window(HOUR_MS, "heartbeats", position=3, records=3),
    )
    return made


def part(stored: StoredTables, prover: Prover, pause: Callable[[float], None]) -> SparkPart:
    return SparkPart(FLOW, prover, stored.storage, stored.now_ms - HOUR_MS + 29_999, pause)


def test_it_proves_waits_for_the_lag_of_every_partition_and_asks(stored: StoredTables, tmp_path: Path) -> None:
    prover, pauses = Prover(stored), list[float]()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            stored.lag(stored.window(HOUR_MS, "clicks", position=50, records=60, latency_mean_ms=1_000))

    found = part(stored, prover, pause).show(ENDS)
    assert found.failure == ""
    assert [(one.flow, one.topics) for one in prover.asked] == [(FLOW, ("clicks", "orders"))]
    assert pauses == [spark_part.LOOK_S] * 2
    assert found.proof == SparkProof(whole=True, partitions=3, records=120, differences=0, took_s=2.5)
    lag, proof = found.answers
    assert (lag.asks, lag.columns) == (
        QUESTIONS[0].asks,
        ("begins", "copied", "mean_age_s", "behind_records", "behind_s"),
    )
    assert [row[1:] for row in lag.rows()] == [(100, 0.8, 30, 2.5), (0, None, 9, 0.08)]
    first_ms, second_ms = (row[0].replace(tzinfo=UTC).timestamp() * 1000 for row in lag.rows())
    assert (first_ms, second_ms - first_ms) == (stored.now_ms - HOUR_MS, 30_000)
    assert (proof.sql, list(proof.rows())) == (QUESTIONS[1].sql, [("orders", 1, 70, 0)])
    page = Path(found.report)
    assert (page.parent, page.name.startswith(PAGE_PREFIX)) == (tmp_path, True)
    assert "A-&gt;B" in page.read_text()


def test_a_table_of_lag_that_lacks_something_is_a_failure(
    stored: StoredTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_part, "LAG_S", 0.0)
    found = part(stored, Prover(stored), lambda _seconds: None).show(ENDS)
    assert found.failure == "after 0 s the table of lag does not say that these are copied: clicks-0"
    assert found.proof is not None
    assert (found.answers, found.report) == ((), "")


def test_a_spark_that_does_not_come_is_a_failure_and_no_error(stored: StoredTables) -> None:
    found = part(stored, Prover(stored, "Spark of mirror demo is refused (no place)"), lambda _seconds: None).show(ENDS)
    assert found == SparkOutcome(failure="Spark of mirror demo is refused (no place)")
