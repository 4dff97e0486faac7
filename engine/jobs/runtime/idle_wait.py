"""Wait of a job that has nothing to do: for a time, or until another thread wakes it."""

import threading


class IdleWait:
    """The wait of one job. A wake-up that comes while the job works ends its next wait at once."""

    def __init__(self) -> None:
        self._woken = threading.Event()
        self._is_over = False

    def wait(self, seconds: float) -> None:
        """Block for `seconds`; return earlier when woken, at once after `end`."""
        if not self._is_over:
            self._woken.wait(seconds)
        if not self._is_over:
            self._woken.clear()

    def wake(self) -> None:
        """End the wait: the job has something to do."""
        self._woken.set()

    def end(self) -> None:
        """End this wait and every later one: the job must stop."""
        self._is_over = True
        self._woken.set()
