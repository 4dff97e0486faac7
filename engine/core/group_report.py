"""What is told of the consumer groups of a flow after a round, as a value that crosses processes."""

import msgspec


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
    trouble: str = ""
    """Why the last round was none; empty when all is well."""
