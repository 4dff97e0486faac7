"""What is told of the consumer groups of a flow after a round, as a value that crosses processes."""

import msgspec

from engine.core.tally import Histogram


class GroupsReport(msgspec.Struct, frozen=True, kw_only=True):
    """One round. `how` counts partitions by how their offsets were found, `without` those without an answer, by why.

    `not_synced` and `failed` name some groups and why; counters of checkpoints and commits are since the keeper began.
    """

    at_ms: int = 0
    round_s: float = 0.0
    groups: int = 0
    how: dict[str, int] = {}
    without: dict[str, int] = {}
    active: int = 0
    """Groups with members on the target, for which nothing is committed."""
    ahead: int = 0
    """Partitions that stand further on the target than on the source, and are left there."""
    checkpoints: int = 0
    commits: int = 0
    not_synced: dict[str, str] = {}
    failed: dict[str, str] = {}
    failing: int = 0
    """How many groups `failed` names, and those that it has no room for."""
    away: dict[str, str] = {}
    """Brokers that cannot be asked about groups, and why."""
    waiting: int = 0
    """Groups that wait for one of them."""
    trouble: str = ""
    """Why the last round was none; empty when all is well."""
    on_commit: bool = False
    """Whether commits are read as they are made; else groups are polled."""
    polled_because: str = ""
    """Why they are not, where that is wanted."""
    latency: Histogram = Histogram()
    """From the begin of the look that found them to the acknowledgement, by checkpoint (MM2: checkpoint-latency-ms)."""
    commit_latency: Histogram = Histogram()
    """From the first commit that is news to when all of its group is told and committed, where commits are read."""
    map_bytes: int = 0
    """Memory of the exact maps."""
