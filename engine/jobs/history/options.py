"""Options and reports of the jobs that store the history of lag. Imports no Spark."""

import msgspec

from engine.config.storage import Storage
from policies.model import FlowName

LAG = "lag"


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


class CareOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that windows are stored, and that files which no longer count stay for readers that started before."""

    keep_s: float = 30 * 86_400.0
    grace_s: float = 900.0


class CareReport(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one round: hours compacted, files withdrawn by retention, commits and files deleted."""

    compacted: int = 0
    expired: int = 0
    commits: int = 0
    files: int = 0


class CareJobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The flow whose history is maintained, and the seconds between two rounds."""

    flow: FlowName
    every_s: float = 300.0
    care: CareOptions = CareOptions()


def checkpoint_uri(storage: Storage, flow: FlowName) -> str:
    """Return the URI of the checkpoint of a flow's query."""
    return storage.path("checkpoints", LAG, flow.source, flow.target)


def history_uri(storage: Storage, flow: FlowName) -> str:
    """Return the URI of the windows of a flow."""
    return storage.path("history", LAG, flow.source, flow.target)
