"""Handles ends of a command from outside: a closed terminal (SIGHUP), SIGTERM, output whose reader is gone.

A signal that this process was started to ignore (`nohup`) stays ignored.
"""

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

STDOUT: Final = 1
STDERR: Final = 2
LOST: Final = (errno.EIO, errno.EPIPE)
"""Errors of a write to a closed terminal, and to a pipe whose reader has ended."""
FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a write to a full disk."""


class EndSignalled(KeyboardInterrupt):
    """A signal ends a command that may be interrupted at any point."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_code(self) -> int:
        """The exit code that shells use for a program ended by a signal."""
        return 128 + self.number


def is_ignored(number: int) -> bool:
    """Whether this process was started to ignore a signal."""
    return signal.getsignal(number) is signal.SIG_IGN


@contextmanager
def handled_by(handler: Callable[[int, FrameType | None], None], *numbers: signal.Signals) -> Iterator[None]:
    """Set a signal handler inside the block; signals that this process was started to ignore stay ignored."""
    before = {number: signal.signal(number, handler) for number in numbers if not is_ignored(number)}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise EndSignalled at the first SIGHUP or SIGTERM, so that the command removes its folders and processes.

    Later signals have no effect, because the cleanup is bounded in time. Off the main thread, which alone gets signals,
    this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        drop_lost_output()
        if len(came) == 1:
            raise EndSignalled(number)

    with handled_by(end, signal.SIGHUP, signal.SIGTERM):
        yield


class DeferredEnd:
    """The signals that arrived while they were held back."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    @property
    def is_asked_for(self) -> bool:
        """Whether a signal arrived."""
        return bool(self.numbers)


@contextmanager
def ends_deferred(note: str, *, leave_at_second: bool = False) -> Iterator[DeferredEnd]:
    """Hold SIGINT and SIGTERM back until the end of the block, then deliver the first one; the block can check for one.

    For native code that must not be interrupted: an exception that a signal handler raises inside `ray.init` leaves
    Ray's driver half built, and the process crashes (SIGSEGV) or hangs at its end. `note` is printed when the signal
    arrives, so that the user sees that it was received. `leave_at_second`: the second signal ends the process at once,
    if there is nothing to clean up. Off the main thread, which alone gets signals, this does nothing.
    """
    came = DeferredEnd()
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def hold(number: int, _frame: FrameType | None) -> None:
        signal.alarm(0)  # Ray's own handler, which calls this one, would abort the process 3 s after a SIGTERM
        came.numbers.append(number)
        if leave_at_second and len(came.numbers) > 1:
            os._exit(128 + number)
        if len(came.numbers) == 1:
            with suppress(OSError):  # unbuffered: the signal may have come in the middle of a `print`
                os.write(STDERR, f"{note}\n".encode())

    try:
        with handled_by(hold, signal.SIGINT, signal.SIGTERM):
            yield came
    finally:
        if came.numbers:
            signal.raise_signal(came.numbers[0])


@contextmanager
def hangup_held() -> Iterator[None]:
    """Make processes started inside the block ignore SIGHUP; a SIGHUP to this process is delivered after the block.

    The kernel sends SIGHUP to every process of a closed terminal, so Ray's processes would end before the mirror has
    drained. Blocking it is enough for them, but not for a JVM, which unblocks SIGHUP unless it is ignored. Linux keeps
    a blocked signal pending even while it is ignored, but a thread that does not block it may consume it: so this also
    checks whether the terminal still exists.
    """
    had_terminal = has_terminal()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if had_terminal and not has_terminal():
        signal.raise_signal(signal.SIGHUP)


def has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def drop_lost_output() -> None:
    """Discard further output to a terminal that was closed: every write to it would fail."""
    for descriptor in (STDOUT, STDERR):
        try:
            os.write(descriptor, b"")
        except OSError as error:
            if error.errno == errno.EIO:
                mute(descriptor)


def drop_unread_pipe() -> None:
    """Discard standard output, whose pipe has no reader any more, and standard error too if it is the same pipe."""
    if os.path.sameopenfile(STDOUT, STDERR):
        mute(STDERR)
    mute(STDOUT)


def mute(descriptor: int) -> None:
    """Discard what is written to a descriptor."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
