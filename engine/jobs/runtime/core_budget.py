"""Limits the cores that batch jobs use in a session that also runs streams. Knows no Spark.

Spark's scheduler gives a free core to a stream first, but takes no core from a running task: a pool has a minimum share
and no maximum. So batch jobs leave one core free, and take turns.
"""

import threading


class CoreBudget:
    """The core budget of batch jobs. `cores`: the session's present cores, set by the host that watches the session."""

    def __init__(self, *, streams: bool, cores: int = 0) -> None:
        self._streams, self.cores = streams, cores
        self.turn = threading.Lock()
        """Held by a batch job while it runs many tasks, such as a wave of a proof."""

    @property
    def most_tasks(self) -> int:
        """The number of tasks that a batch job may run at a time; 0: no limit.

        No limit applies without streams, nor with a single core: there only short tasks help.
        """
        return self.cores - 1 if self._streams and self.cores > 1 else 0
