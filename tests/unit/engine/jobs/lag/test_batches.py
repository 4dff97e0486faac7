"""The names of batches: by checkpoint, number and offsets, and not before the query is there."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.config.storage import Storage
from engine.jobs.lag import batches
from engine.jobs.lag.batches import QueryBatches
from engine.jobs.lag.options import checkpoint_uri
from engine.jobs.tables.log import Batch
from policies.model import FlowName

FLOW = FlowName("A", "B")
OFFSETS = '{KafkaV2[Subscribe[p]]: {"p":{"0":7}}}'


class Java:
    """What PySpark's query has of Spark: each name is a method that leads on; at the end there is a text."""

    def __init__(self, text: str) -> None:
        self._jsq, self._text = self, text

    def __getattr__(self, _name: str) -> Any:
        return lambda: self

    def toString(self) -> str:
        return self._text


@pytest.fixture
def names(tmp_path: Path) -> QueryBatches:
    storage = Storage.of_folder(tmp_path)
    folder = storage.folder("checkpoints", "lag", *FLOW)
    assert folder is not None
    folder.mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"the-query"}')
    return QueryBatches(FLOW, checkpoint_uri(storage, FLOW))


def test_a_batch_is_named_by_checkpoint_number_and_offsets(names: QueryBatches) -> None:
    query: Any = Java(OFFSETS)
    names.started(query)
    assert names.batch(7) == Batch("lag A->B the-query", 7, "lag A->B", OFFSETS)


def test_the_first_batch_waits_for_its_query(names: QueryBatches) -> None:
    query: Any = Java(OFFSETS)
    began = threading.Event()

    def first() -> Batch:
        began.set()
        return names.batch(0)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(first)
        assert began.wait(60)
        assert not running.done()
        names.started(query)
        assert running.result(60).number == 0


def test_a_query_that_never_comes_is_waited_for_in_vain(names: QueryBatches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "STARTED_S", 0.01)
    with pytest.raises(TimeoutError):
        names.batch(0)
