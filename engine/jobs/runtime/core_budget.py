"""Limits the cores that batch jobs use in a session that also runs streams, and tells when a large one runs.

Spark's scheduler gives a free core to a stream first, but takes no core from a running task: a pool has a minimum share
and no maximum. So batch jobs leave one core free, and take turns. Knows no Spark.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class CoreBudget:
    """The core budget of batch jobs. `cores`: the session's present cores, set by the host that watches the session.

    `all_cores`: its cores once all executors of the configuration run.
    """

    def __init__(self, *, streams: bool, cores: int = 0, all_cores: int = 0) -> None:
        self._streams, self.cores, self._all_cores = streams, cores, all_cores
        self._large_jobs, self._lock = 0, threading.Lock()
        self.turn = threading.Lock()
        """Held by a batch job while it runs many tasks, such as a wave of a proof."""

    @property
    def most_tasks(self) -> int:
        """The number of tasks that a batch job may run at a time; 0: no limit.

        No limit applies without streams, nor with a single core: there only short tasks help.
        """
        return self._most_of(self.cores)

    @property
    def most_tasks_when_large(self) -> int:
        """The same, once the executors run for which `large_job` asks."""
        return self._most_of(max(self.cores, self._all_cores))

    def _most_of(self, cores: int) -> int:
        return cores - 1 if self._streams and cores > 1 else 0

    @contextmanager
    def large_job(self) -> Iterator[None]:
        """Ask for all executors of the configuration for as long as the block runs; they come while it runs."""
        with self._lock:
            self._large_jobs += 1
        try:
            yield
        finally:
            with self._lock:
                self._large_jobs -= 1

    @property
    def has_large_job(self) -> bool:
        return self._large_jobs > 0
