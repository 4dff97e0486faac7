"""The report of a flow's consumer groups after a round, as a value that crosses processes."""

import msgspec

from engine.core.reports.latency import Histogram


class GroupsReport(msgspec.Struct, frozen=True, kw_only=True):
    """One round. `how` counts partitions by how their offsets were found, `without` those without an offset by cause.

    `not_synced` and `failed` name some groups and why; `checkpoints` and `commits` count since group sync started.
    """

    at_ms: int = 0
    round_s: float = 0.0
    groups: int = 0
    how: dict[str, int] = {}
    without: dict[str, int] = {}
    active: int = 0
    """Groups with members on the target; raymirror commits nothing for them."""
    ahead: int = 0
    """Partitions whose offset on the target is ahead of the source; raymirror does not change it."""
    checkpoints: int = 0
    commits: int = 0
    not_synced: dict[str, str] = {}
    failed: dict[str, str] = {}
    failing: int = 0
    """The number of all failed groups; `failed` names only some of them."""
    away: dict[str, str] = {}
    """Brokers that do not answer about groups, each with the cause."""
    waiting: int = 0
    """The number of groups that wait for one of these brokers."""
    trouble: str = ""
    """Why the last round did not succeed; empty when all is well."""
    failed_rounds: int = 0
    """The number of rounds in a row that did not succeed."""
    on_commit: bool = False
    """Whether raymirror reads commits as they happen; otherwise it polls groups."""
    polled_because: str = ""
    """Why groups are polled although commits should be read."""
    latency: Histogram = Histogram()
    """Per checkpoint: from the start of the round that found it to its acknowledgement (MM2: checkpoint-latency-ms)."""
    commit_latency: Histogram = Histogram()
    """If commits are read: from a group's first new commit until all its checkpoints and commits are written."""
    map_bytes: int = 0
    """Memory of the exact maps, in bytes."""
