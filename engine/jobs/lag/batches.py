"""Names the batches of the lag query: by its checkpoint, which numbers them, and by the offsets that a batch ends at.

On an object store two hosts may both write the offsets of a batch into the checkpoint, if one is stale: the store has
no rename that fails. So the number alone does not say what a batch was made of; its commit says it too.
"""

import json
from concurrent.futures import Future
from typing import Protocol

from pyspark.sql.streaming.query import StreamingQuery

from engine.jobs.runtime.storage_files import open_storage
from engine.jobs.tables.log import Batch
from policies.model import FlowName

STARTED_S = 60.0
"""Seconds within which Spark returns a query whose first batch runs already."""


class Batches(Protocol):
    """Names the batches that a sink gets."""

    def batch(self, number: int) -> Batch:
        """Return the transaction of the batch that runs now."""


class QueryBatches:
    """The batches of one query; `checkpoint`: its URI. Call `started` once Spark returned the query."""

    def __init__(self, flow: FlowName, checkpoint: str) -> None:
        self._owner, self._checkpoint = writer_of(flow), checkpoint
        self._query: Future[StreamingQuery] = Future()

    def started(self, query: StreamingQuery) -> None:
        """Take the query, whose first batch may wait for that."""
        self._query.set_result(query)

    def batch(self, number: int) -> Batch:
        """Return the transaction of the batch that runs now. Raises OSError, TimeoutError."""
        query = self._query.result(STARTED_S)
        return Batch(f"{self._owner} {generation_of(self._checkpoint)}", number, self._owner, offsets_of(query))


def offsets_of(query: StreamingQuery) -> str:
    """Return the offsets at which the running batch of a query ends.

    They are those in the query's memory. The checkpoint's file may have another host's by now.
    """
    # PySpark has no name for it: `lastProgress` tells of the batch before. Spark 3.5, StreamExecution.availableOffsets.
    return str(query._jsq.streamingQuery().availableOffsets().toString())  # noqa: SLF001


def writer_of(flow: FlowName) -> str:
    """Return the name under which the flow's query commits to the table, without the id of its checkpoint."""
    return f"lag {flow}"


def generation_of(checkpoint: str) -> str:
    """Return the query id that the checkpoint stores. Raises OSError."""
    filesystem, path = open_storage(checkpoint)
    with filesystem.open_input_stream(f"{path}/metadata") as stream:
        return str(json.loads(stream.read())["id"])
