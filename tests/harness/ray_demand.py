"""A driver that holds as many one-CPU actors as it is told: each line on standard input is a number.

It prints that number once so many actors have answered.
"""

import logging
import sys
from typing import Any


def main(address: str) -> None:
    """Hold actors until standard input ends."""
    import ray  # here: a driver's only

    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)

    class Idler:
        def answer(self) -> None:
            """Say that it is there."""

    idler: Any = ray.remote(num_cpus=1)(Idler)
    held: list[Any] = []
    for line in sys.stdin:
        wanted = int(line)
        while len(held) > wanted:
            ray.kill(held.pop())
        held += [idler.remote() for _ in range(wanted - len(held))]
        ray.get([one.answer.remote() for one in held])
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
