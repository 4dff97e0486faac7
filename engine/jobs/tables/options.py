"""Options and reports of the maintenance of tables. Imports no pyarrow."""

import msgspec


class CareOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that rows are stored (0: for ever), rounded up to whole partitions."""

    keep_s: float = 30 * 86_400.0


class CareReport(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one round: partitions folded, partitions expired, files deleted, changes refused by conflicts."""

    folded: int = 0
    expired: int = 0
    deleted: int = 0
    conflicts: int = 0
