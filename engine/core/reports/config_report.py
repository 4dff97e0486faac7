"""The report of config sync after a round, as a value that crosses processes."""

import msgspec


class ConfigReport(msgspec.Struct, frozen=True, kw_only=True):
    """The last round: when it was (Unix time, ms), how long it took, how many copies and ACLs it compared.

    `changes` and `failures` count since config sync started; `conflicts` are from the last round that compared configs.
    """

    at_ms: int = 0
    round_s: float = 0.0
    topics: int = 0
    changes: int = 0
    failures: int = 0
    conflicts: int = 0
    trouble: str = ""
    """Why the last round did not succeed; empty when all is well."""
    by: str = ""
    """What planned the last round: `spark`, or `loop`, the loop of the Metadata process; empty before the first."""
    not_spark: str = ""
    """Why the loop planned the last round although Spark plans them; empty if Spark did, or is not to."""
