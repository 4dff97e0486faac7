"""The lag job around its query, without Spark: a missing or useless checkpoint is reported, and created again."""

import threading
from pathlib import Path

import pytest

from engine.config.storage import NoStorage, Storage, needed
from engine.core.events.progress_events import LagCheckpointLost
from engine.jobs.lag import job as lag_job
from engine.jobs.lag.batches import writer_of
from engine.jobs.lag.checkpoint import drop_checkpoint, has_checkpoint
from engine.jobs.lag.job import TRIES, is_lost, with_checkpoint
from engine.jobs.lag.options import LagReport, checkpoint_uri, lag_table_uri
from engine.jobs.lag.query import LagQueryFailed
from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.log import Batch
from engine.jobs.tables.table import Table
from policies.model import FlowName

FLOW = FlowName("A", "B")


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    monkeypatch.setattr(lag_job, "PAUSE_S", 0.0)
    return Storage.of_folder(tmp_path)


def make_checkpoint(storage: Storage, *files: str) -> Path:
    place = storage.folder("checkpoints", "lag", "A", "B")
    assert place is not None
    for file in files:
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).touch()
    return place


def test_a_checkpoint_is_lost_where_there_is_history_without_a_whole_one(storage: Storage) -> None:
    assert not is_lost(storage, FLOW), "a first start"
    table = Table(lag_table_uri(storage), LAG)
    table.create()
    table.commit([], Batch("lag A->C g", 0, writer_of(FlowName("A", "C"))))
    assert not is_lost(storage, FLOW), "another flow has written"
    table.commit([], Batch("lag A->B g", 0, writer_of(FLOW)))
    assert is_lost(storage, FLOW)
    make_checkpoint(storage, "metadata", "offsets/.0.crc")
    assert is_lost(storage, FLOW), "it would count its batches anew"
    make_checkpoint(storage, "offsets/0")
    assert not is_lost(storage, FLOW)


def test_what_is_left_of_a_checkpoint_is_removed_and_twice_is_once(storage: Storage) -> None:
    uri, place = checkpoint_uri(storage, FLOW), make_checkpoint(storage, "metadata", "state/0/0/1.delta")
    drop_checkpoint(uri)
    drop_checkpoint(uri)
    assert not place.exists()


class Query:
    """A query that ends as often as it is told to, after so many batches."""

    def __init__(self, storage: Storage, ends: int, batches: int = 0, *, stop: threading.Event | None = None) -> None:
        self.uri = checkpoint_uri(storage, FLOW)
        self.tries, self.told = 0, list[str]()
        self._ends, self._batches, self._stop = ends, batches, stop or threading.Event()

    def keep(self) -> LagReport:
        self.tries += 1
        if self.tries <= self._ends:
            raise LagQueryFailed("A->B", "5.delta does not exist", self._batches)
        return LagReport(batches=1)

    def begin_anew(self, what: str) -> None:
        self.told.append(what)
        drop_checkpoint(self.uri)

    def run(self) -> LagReport:
        return with_checkpoint(self.keep, self.uri, self.begin_anew, self._stop)


def test_a_query_that_never_gets_to_a_batch_begins_anew_once(storage: Storage) -> None:
    make_checkpoint(storage, "metadata", "offsets/0")
    query = Query(storage, ends=TRIES)
    assert query.run().batches == 1
    assert query.told == ["cannot be used any more (5.delta does not exist)"]
    assert not has_checkpoint(query.uri)


def test_one_that_gets_there_keeps_its_checkpoint(storage: Storage) -> None:
    make_checkpoint(storage, "metadata", "offsets/0")
    query = Query(storage, ends=TRIES - 1)
    assert query.run().batches == 1
    assert query.told == []


def test_an_end_that_has_other_reasons_is_told(storage: Storage) -> None:
    without = Query(storage, ends=9)
    with pytest.raises(LagQueryFailed, match=r"A->B: the query that writes the history of lag ended: 5\.delta"):
        without.run()
    make_checkpoint(storage, "metadata", "offsets/0")
    worked, stop = Query(storage, ends=9, batches=7), threading.Event()
    with pytest.raises(LagQueryFailed):
        worked.run()
    stop.set()
    stopped = Query(storage, ends=9, stop=stop)
    with pytest.raises(LagQueryFailed):
        stopped.run()
    assert (without.tries, worked.tries, stopped.tries) == (1, 1, 1)
    assert without.told == worked.told == stopped.told == []


def test_the_loss_is_told_with_what_is_read_anew() -> None:
    told = LagCheckpointLost(flow=FLOW, checkpoint="file:/c", topic="raymirror-progress.A.internal", what="is gone")
    assert (told.severity, told.about) == ("warning", "raymirror-progress.A.internal")
    assert told.text() == (
        "file:/c: the checkpoint of the lag history is gone: raymirror computes the windows again"
        " from the samples that raymirror-progress.A.internal still has; no window is lost or doubled"
    )


def test_without_a_storage_nothing_can_be_kept_and_it_is_said() -> None:
    with pytest.raises(NoStorage, match=r"raymirror\.storage is not set, and the history of lag is kept there; write"):
        needed(None, "the history of lag")
