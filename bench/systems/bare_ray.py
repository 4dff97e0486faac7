"""A Ray as `raymirror run` starts it, with actors that do nothing: the lower limit of every mirror on Ray."""

import signal
import sys
from pathlib import Path

from actors.ray.connect import start_local

MARK = "bare Ray is there"


class Bare:
    """An actor with an event loop, as each actor of raymirror."""

    async def ready(self) -> bool:
        """Answer once."""
        return True


def main() -> int:
    """Start Ray and some actors, report that, and stay until SIGTERM."""
    signal.signal(signal.SIGTERM, _end)
    connection = start_local(cpus=4, folder=Path(sys.argv[2]))
    signal.signal(signal.SIGTERM, _end)  # Ray has taken it
    try:
        ray = connection.ray
        actors = [ray.remote(Bare).options(num_cpus=0).remote() for _ in range(int(sys.argv[1]))]
        ray.get([actor.ready.remote() for actor in actors])
        print(MARK, flush=True)
        signal.pause()
    finally:
        connection.close()
    return 0


def _end(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
