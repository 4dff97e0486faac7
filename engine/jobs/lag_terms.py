"""What the jobs of the history of lag are told, and what they report. Imports no Spark."""

import msgspec

from engine.jobs.storage import Storage
from policies.model import FlowName

LAG = "lag"


class LagTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The history of one flow: seconds of a window, how late a sample may come, how often a batch; records a batch.

    `rpo_s`: the flow's objective, 0: none. `rest_s`: how long after a batch in which nothing moved the next one comes,
    unless the mirror says before that something moves.
    A sample more than `watermark_s` off the brokers' clock bears theirs.
    """

    flow: FlowName
    window_s: float = 30.0
    watermark_s: float = 15.0
    every_s: float = 5.0
    rest_s: float = 300.0
    rpo_s: float = 0.0
    most_records: int = 500


class LagReport(msgspec.Struct, frozen=True, kw_only=True):
    """How the query did: batches, rows of windows they told, samples that were too late, seconds of the last batch."""

    batches: int = 0
    rows: int = 0
    late: int = 0
    batch_s: float = 0.0


class CareTerms(msgspec.Struct, frozen=True, kw_only=True):
    """How long windows are kept, and how long what counts no longer stays for readers that began before; seconds."""

    keep_s: float = 30 * 86_400.0
    grace_s: float = 900.0


class CareReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was done: hours compacted, files that ran out of retention, commits and files cleared away."""

    compacted: int = 0
    expired: int = 0
    commits: int = 0
    files: int = 0


class CareJobTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Whose history is cared for, and the seconds between two rounds."""

    flow: FlowName
    every_s: float = 300.0
    care: CareTerms = CareTerms()


def checkpoint_uri(storage: Storage, flow: FlowName) -> str:
    """Say where the query of a flow keeps its place."""
    return storage.path("checkpoints", LAG, flow.source, flow.target)


def history_uri(storage: Storage, flow: FlowName) -> str:
    """Say where the windows of a flow are."""
    return storage.path("history", LAG, flow.source, flow.target)
