"""Ends of a command that come from outside: a closed terminal (SIGHUP), SIGTERM, output that nobody can read any more.

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
"""What a write says to a terminal that was closed, and to a pipe whose reader has ended."""
FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""What a write says to a disk that is full."""


class EndSignalled(KeyboardInterrupt):
    """A signal asked for the end of a command that may be broken off at any point."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_code(self) -> int:
        """The exit code by which shells know a program that a signal ended."""
        return 128 + self.number


def is_ignored(number: int) -> bool:
    """Whether this process was started to ignore a signal."""
    return signal.getsignal(number) is signal.SIG_IGN


@contextmanager
def handled_by(handler: Callable[[int, FrameType | None], None], *numbers: signal.Signals) -> Iterator[None]:
    """Have signals handled so inside the block; those that this process was started to ignore stay ignored."""
    before = {number: signal.signal(number, handler) for number in numbers if not is_ignored(number)}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise Ended at the first SIGHUP or SIGTERM, so that folders and processes of the command are cleared away.

    Later ones change nothing: the clearing is bounded. Off the main thread, which alone hears signals, this does
    nothing.
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
    """The signals that came while they were held back."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    @property
    def is_asked_for(self) -> bool:
        """Whether one came."""
        return bool(self.numbers)


@contextmanager
def ends_deferred(note: str, *, leave_at_second: bool = False) -> Iterator[DeferredEnd]:
    """Hold SIGINT and SIGTERM back until the block is over, then deliver the first one; the block can ask if one came.

    For native code that must not be left half way: an exception that a signal's handler raises inside `ray.init` leaves
    Ray's driver half built, and the process crashes (SIGSEGV) or hangs when it ends. `note` is printed when the signal
    comes, so that nobody thinks it was lost. `leave_at_second`: the second signal ends the process at once, where there
    is nothing to clear away. Off the main thread, which alone hears signals, this does nothing.
    """
    came = DeferredEnd()
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def hold(number: int, _frame: FrameType | None) -> None:
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
    """Have processes that are started meanwhile ignore SIGHUP; one that comes here is delivered afterwards.

    The kernel sends it to every process of a closed terminal, so Ray's own would end before the mirror has drained.
    Blocking alone would do for them, but not for a JVM, which unblocks it unless it is ignored. Linux keeps a blocked
    signal pending although it is ignored at that moment, but another thread that does not block it may take it away:
    so this also looks whether the terminal is still there.
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
    """Send what is still printed nowhere, where its terminal was closed: writing there fails from then on."""
    for descriptor in (STDOUT, STDERR):
        try:
            os.write(descriptor, b"")
        except OSError as error:
            if error.errno == errno.EIO:
                mute(descriptor)


def drop_unread_pipe() -> None:
    """Send standard output nowhere, whose pipe nobody reads any more, and standard error too where it is the same."""
    if os.path.sameopenfile(STDOUT, STDERR):
        mute(STDERR)
    mute(STDOUT)


def mute(descriptor: int) -> None:
    """Send what is written to a descriptor nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
