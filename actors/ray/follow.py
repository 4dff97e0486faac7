"""Follows a mirror from the main thread until it has ended or a signal requests its end."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Protocol

from actors.local.ending import drop_lost_output, is_ignored
from actors.model.status import MirrorStatus
from actors.observability.view import View
from actors.ray.mirror import Mirror, MirrorLost
from engine.base.errors import MirrorError

SHOW_S = 1.0
DRAIN_MARGIN_S = 10.0  # beyond the copiers' own drain bound
LOST_S = 60.0
"""Seconds that a supervisor may be silent: Ray restarts one in a second, a new configuration starts a new one, and
while Ray's head is unreachable the copiers continue."""


class EndRequest:
    """A flag that a signal handler sets to request the end.

    The handler may interrupt the waiting thread at any step. `Event.set` takes a lock that this thread may hold; a
    SimpleQueue may be put to from within its own `get`.
    """

    def __init__(self) -> None:
        self._said: SimpleQueue[None] = SimpleQueue()
        self._is_set = False

    def set(self) -> None:
        """Request the end; safe in a signal handler."""
        self._said.put(None)

    def wait(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` for the request; return whether it came."""
        if not self._is_set:
            try:
                self._said.get(timeout=timeout_s)
            except Empty:
                return False
            self._is_set = True
        return True


@contextmanager
def stop_signals() -> Iterator[EndRequest]:
    """Turn SIGTERM, Ctrl-C and SIGHUP (the terminal was closed) into a flag. Use it after `ray.init`, which sets a
    SIGTERM handler of its own; main thread only.

    A second signal during the drain changes nothing: the drain is bounded.
    """
    asked = EndRequest()

    def ask(_number: int, _frame: FrameType | None) -> None:
        drop_lost_output()
        asked.set()

    numbers = [signal.SIGTERM, signal.SIGINT]
    if not is_ignored(signal.SIGHUP):
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class StatusListener(Protocol):
    """Receives every status of a mirror that is followed."""

    def note_status(self, status: MirrorStatus) -> None:
        """Receive a status."""


def follow(
    mirror: Mirror,
    view: View,
    asked: EndRequest,
    *,
    listener: StatusListener | None = None,
    until_started: bool = False,
) -> MirrorStatus | None:
    """Show the mirror once a second until it has stopped, a signal came, or (`until_started`) it has started.

    Returns the last status. Raises MirrorLost or the supervisor's own error when none has answered for LOST_S seconds.
    """
    status, heard_at_s = None, time.monotonic()
    while True:
        try:
            status = mirror.follow()
            heard_at_s = time.monotonic()
        except MirrorError as lost:
            _tolerate(mirror, lost, view, time.monotonic() - heard_at_s)
        else:
            if listener is not None:
                listener.note_status(status)
            view.show(status)
            if status.phase == "stopped" or (until_started and status.phase != "starting"):
                return status
        if asked.wait(SHOW_S):
            return status


def _tolerate(mirror: Mirror, lost: MirrorError, view: View, silent_s: float) -> None:
    if silent_s > LOST_S:
        raise lost
    view.say(f"{lost}; the copiers continue; raymirror asks again for {LOST_S:.0f} s")
    try:
        mirror.find_again()
    except MirrorLost:
        return  # Ray has not restarted it yet


def leave(mirror: Mirror, drain_s: float, view: View) -> bool:
    """Stop following; end the mirror in order if it has no other follower. Return False if that took too long.

    Raises MirrorLost.
    """
    if mirror.leave():
        return _wait(mirror, drain_s, view)
    view.say(f"mirror {mirror.namespace} continues: it is detached, or others follow it")
    return True


def _wait(mirror: Mirror, drain_s: float, view: View) -> bool:
    stopped = mirror.wait_stopped(drain_s + DRAIN_MARGIN_S)
    view.show(mirror.status())
    return stopped
