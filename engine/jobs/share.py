"""What batch jobs may have of a session's cores beside its streams. Knows no Spark.

Spark's scheduler gives a free core to a stream first, but takes none from a task that runs: a pool has a least share
and no greatest. So batch jobs themselves have no more tasks at a time than leave one core free, and take turns.
"""

import threading


class Share:
    """The share of batch jobs. `cores`: what the session has at present, told by whoever looks after it."""

    def __init__(self, *, streams: bool, cores: int = 0) -> None:
        self._streams, self.cores = streams, cores
        self.turn = threading.Lock()
        """Held by a batch job while many tasks of it run: a wave of a proof."""

    @property
    def most_tasks(self) -> int:
        """How many tasks a batch job may have at a time; 0: as many as it likes.

        So it is without streams, and where there is one core: there only short tasks help.
        """
        return self.cores - 1 if self._streams and self.cores > 1 else 0
