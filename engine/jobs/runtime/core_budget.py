"""Budget of cores that batch jobs may use in a session beside its streams. Knows no Spark.

Spark's scheduler gives a free core to a stream first, but takes no core from a running task: a pool has a minimum share
and no maximum. So batch jobs run only so many tasks at a time that one core stays free, and take turns.
"""

import threading


class CoreBudget:
    """The core budget of batch jobs. `cores`: the session's present cores; whoever watches the session sets it."""

    def __init__(self, *, streams: bool, cores: int = 0) -> None:
        self._streams, self.cores = streams, cores
        self.turn = threading.Lock()
        """Held by a batch job while it runs many tasks, such as a wave of a proof."""

    @property
    def most_tasks(self) -> int:
        """How many tasks a batch job may have at a time; 0: no limit.

        There is no limit without streams, nor with a single core: there only short tasks help.
        """
        return self.cores - 1 if self._streams and self.cores > 1 else 0
