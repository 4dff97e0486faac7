"""The continuous proof job: what it reads, stores and reports, and how it ends; without Spark and clusters."""

import threading
from typing import Any

import pytest

from engine.base.errors import BrokerUnreachable
from engine.config.storage import NoStorage, Storage
from engine.core.events.event_base import Event
from engine.core.events.proof_events import CopyDiffers
from engine.jobs.proof.model import LaneReport, ProofReport, ProofStopped, ProofVerdict, Proven
from engine.jobs.proof.state import FlowProof, Key, WatchOptions
from engine.jobs.runtime.core_budget import CoreBudget
from policies.model import FlowName, TopicPartition
from tests.unit.engine.config_files import mirror

FLOW = FlowName("A", "B")
KEY = ("t", 0, "s", "u", 1)
STORAGE = Storage("file:/kept")


def report(low: int, high: int, copied: int, verdict: ProofVerdict = ProofVerdict.WHOLE) -> ProofReport:
    lane = LaneReport(
        topic="t",
        partition=0,
        target_topic="A.t",
        source_id="s",
        target_id="u",
        generation=1,
        source_from=low,
        source_to=high,
        proven_from=0,
        proven_to=high,
        copied_to=copied,
        differences=int(verdict is ProofVerdict.DIFFERS),
        verdict=verdict,
    )
    return ProofReport(run="r", flow=FLOW, began_ms=1, took_s=1.0, read_s=1.0, cores=1, lanes=(lane,), differences=())


class Stage:
    """Rounds that go as a test says; the last one is followed by the order to stop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from engine.jobs.proof import watch as proof_watch

        self.run = proof_watch.run
        self.rounds: list[ProofReport | Exception] = []
        self.wanted: list[Any] = []
        self.stored: list[ProofReport] = []
        self.tidied = 0
        self.told: list[FlowProof] = []
        self.noted: list[Event] = []
        self.stop, self.share = threading.Event(), CoreBudget(streams=True)
        monkeypatch.setattr(proof_watch, "prove", self._prove)
        monkeypatch.setattr(proof_watch, "ProofStore", lambda storage: FakeStore(self, storage))

    def _prove(self, _spark: Any, options: Any, _config: Any, wanted: Any, **more: Any) -> ProofReport:
        assert options.flow == FLOW
        assert (more["stop"], more["share"]) == (self.stop, self.share)
        self.wanted.append(wanted)
        now = self.rounds.pop(0)
        if isinstance(now, Exception):
            raise now
        return now

    def __call__(self, *rounds: ProofReport | Exception, storage: Storage | None = STORAGE) -> None:
        self.rounds = list(rounds)
        options = WatchOptions(flow=FLOW, interval_s=0.0)
        with pytest.raises(ProofStopped):
            self.run(
                None,  # type: ignore[arg-type]
                options,
                mirror(),
                storage,
                self.stop,
                self.noted.append,
                self._tell,
                self.share,
            )

    def _tell(self, proof: FlowProof) -> None:
        self.told.append(proof)
        if not self.rounds:
            self.stop.set()


class FakeStore:
    """Knows of one lane; keeps what a round stores."""

    def __init__(self, stage: Stage, storage: Storage) -> None:
        assert storage == STORAGE
        self._stage = stage

    def proven(self, flow: FlowName) -> dict[Key, Proven]:
        assert flow == FLOW
        return {KEY: Proven(0, 5)}

    def store(self, report: ProofReport) -> None:
        self._stage.stored.append(report)

    def tidy(self, now_ms: int) -> None:
        assert now_ms > 0
        self._stage.tidied += 1


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_a_round_reads_what_the_one_before_saw_copied(stage: Stage) -> None:
    stage(report(5, 5, 20), report(5, 20, 30))
    assert [wanted.until for wanted in stage.wanted] == [{TopicPartition("t", 0): 5}, {TopicPartition("t", 0): 20}]
    assert stage.wanted[1].proven == {KEY: Proven(0, 5)}
    assert (len(stage.stored), stage.tidied) == (1, 1), "of the round that read something"
    assert [proof.lanes[0].proven_to for proof in stage.told] == [5, 20]
    assert stage.noted == []


def test_what_goes_wrong_is_told_and_the_next_round_goes_on(stage: Stage) -> None:
    stage(BrokerUnreachable("host:1", "refused"), report(5, 20, 30))
    assert [proof.trouble for proof in stage.told] == ["host:1: cannot connect: refused", ""]


def test_a_difference_is_said_aloud(stage: Stage) -> None:
    stage(report(5, 20, 30, ProofVerdict.DIFFERS))
    (event,) = stage.noted
    assert isinstance(event, CopyDiffers)
    assert (event.lane, event.source_from, event.source_to) == (TopicPartition("t", 0), 5, 20)


def test_a_round_that_is_stopped_is_no_trouble(stage: Stage) -> None:
    stage(ProofStopped())
    assert stage.told == []


def test_without_a_storage_there_is_none(stage: Stage) -> None:
    with pytest.raises(NoStorage):
        stage(storage=None)
