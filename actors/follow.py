"""Following a mirror from the main thread until it has ended or a signal asks for its end."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from actors.mirror import Mirror
from actors.status import MirrorStatus
from actors.view import View

SHOW_S = 1.0
DRAIN_MARGIN_S = 10.0  # beyond the copiers' own drain bound


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Turn SIGTERM and Ctrl-C into a flag. After `ray.init`, which takes SIGTERM for itself; main thread only.

    A second signal while the first is being obeyed changes nothing: the drain is bounded.
    """
    asked = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def follow(
    mirror: Mirror, view: View, asked: threading.Event, until: Callable[[MirrorStatus], bool] | None = None
) -> MirrorStatus:
    """Show the mirror once a second until it has stopped, a signal came or `until` is content; give the last status.

    Raises MirrorLost.
    """
    while True:
        status = mirror.status()
        view.show(status)
        if status.phase == "stopped" or (until is not None and until(status)):
            return status
        if asked.wait(SHOW_S):
            return status


def drain(mirror: Mirror, drain_s: float, view: View) -> bool:
    """End the mirror in order within a bounded time; False when it took too long. Raises MirrorLost."""
    mirror.drain()
    stopped = mirror.wait_stopped(drain_s + DRAIN_MARGIN_S)
    view.show(mirror.status())
    return stopped
