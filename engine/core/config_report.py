"""What is told of config sync after a round, as a value that crosses processes."""

import msgspec


class ConfigReport(msgspec.Struct, frozen=True, kw_only=True):
    """The last round: when (Unix time), how long it took, how many copies and ACLs it compared.

    `changes` and `failures` are since the keeper began; `conflicts` are of the last round that compared configs.
    """

    at_ms: int = 0
    round_s: float = 0.0
    topics: int = 0
    changes: int = 0
    failures: int = 0
    conflicts: int = 0
    trouble: str = ""
    """Why the last round was none; empty when all is well."""
