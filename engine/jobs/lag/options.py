"""Options and reports of the jobs that store the history of lag. Imports neither Spark nor pyarrow."""

import msgspec

from engine.config.storage import Storage
from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.options import CareOptions
from policies.model import FlowName


class LagOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The history of one flow: the length of a window, how late a sample may come, how often a batch runs, in seconds.

    `rpo_s`: the flow's objective; 0: none. `rest_s`: time to the next batch after a batch in which nothing moved,
    unless the mirror reports earlier that something moves. A sample whose time is more than `watermark_s` off the
    brokers' clock gets the brokers' time. `most_records`: the largest number of progress records in a batch.
    """

    flow: FlowName
    window_s: float = 30.0
    watermark_s: float = 15.0
    every_s: float = 5.0
    rest_s: float = 300.0
    rpo_s: float = 0.0
    most_records: int = 500


class LagReport(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the query: batches, rows of windows written, samples that came too late; seconds of the last batch."""

    batches: int = 0
    rows: int = 0
    late: int = 0
    batch_s: float = 0.0


class LagCareOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds between two rounds of maintenance, and what each does."""

    every_s: float = 300.0
    care: CareOptions = CareOptions()


def checkpoint_uri(storage: Storage, flow: FlowName) -> str:
    """Return the URI of the checkpoint of a flow's query."""
    return storage.path("checkpoints", LAG.name, flow.source, flow.target)


def lag_table_uri(storage: Storage) -> str:
    """Return the URI of the table with the windows of all flows."""
    return storage.path("tables", LAG.name)
