"""A keeper process for one Ray node: every process of the node is its descendant, is reaped, and ends with it.

`ray start --block` takes the whole node down when one of its processes dies. So a node whose GCS is killed and started
again is started without it: the processes it leaves behind are adopted here (PR_SET_CHILD_SUBREAPER). Reaping matters:
a raylet that stays a zombie keeps its workers alive, because they check its pid.

Started as `python -m tests.harness.ray_keeper COMMAND ...`. Prints "started" after the command has ended with 0. Each
line on standard input is a JSON `Start`, started as a further process; the end of standard input kills everything.
"""

import contextlib
import ctypes
import os
import subprocess
import sys
import threading

import msgspec
import psutil

_PR_SET_CHILD_SUBREAPER = 36


class Start(msgspec.Struct, frozen=True):
    """A further process of this node."""

    argv: list[str]
    env: dict[str, str]


def main(command: list[str]) -> int:
    """Start the node and live until the last of its processes has ended; the command's exit code if it fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode
    if code != 0:
        _kill_all()
        return code
    closed = threading.Event()
    threading.Thread(target=_listen, args=(closed,), daemon=True).start()
    print("started", flush=True)  # noqa: T201 - how the parent is told
    with contextlib.suppress(ChildProcessError):  # the last one has been reaped
        while True:
            os.waitpid(-1, 0)
            if closed.is_set():
                _kill_all()
    return 0


def _listen(closed: threading.Event) -> None:
    for line in sys.stdin.buffer:
        start = msgspec.json.decode(line, type=Start)
        os.posix_spawn(start.argv[0], start.argv, start.env)
    closed.set()
    _kill_all()  # the first deaths wake the main thread, which kills what those left behind


def _kill_all() -> None:
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
