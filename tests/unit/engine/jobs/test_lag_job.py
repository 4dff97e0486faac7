"""The lag job before its query starts, without Spark: a checkpoint that is gone is told, once it matters."""

from pathlib import Path

import pytest

from engine.core.event_base import Event
from engine.jobs.history_files import Commit, HistoryFiles
from engine.jobs.lag_job import lost_checkpoint
from engine.jobs.lag_terms import checkpoint_uri, history_uri
from engine.jobs.storage import NoStorage, Storage, needed
from policies.model import FlowName

FLOW = FlowName("A", "B")


def test_a_checkpoint_is_lost_where_there_is_history_without_one(tmp_path: Path) -> None:
    storage = Storage.of_folder(tmp_path)
    assert lost_checkpoint(storage, FLOW) is None, "a first start"
    HistoryFiles(history_uri(storage, FLOW)).commit("first", Commit(at_ms=1))
    told = lost_checkpoint(storage, FLOW)
    assert isinstance(told, Event)
    assert (told.severity, told.about) == ("warning", "raymirror-progress.A.internal")
    assert told.text() == (
        f"{checkpoint_uri(storage, FLOW)}: the checkpoint of the history of lag is gone: what"
        " raymirror-progress.A.internal still has is read anew; no window is lost or doubled by that"
    )
    place = storage.folder("checkpoints", "lag", "A", "B")
    assert place is not None
    place.mkdir(parents=True)
    (place / "metadata").touch()
    assert lost_checkpoint(storage, FLOW) is None


def test_without_a_storage_nothing_can_be_kept_and_it_is_said() -> None:
    with pytest.raises(
        NoStorage, match=r"raymirror\.storage is not set, and the history of lag is kept there; write file:"
    ):
        needed(None, "the history of lag")
