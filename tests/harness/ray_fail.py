"""Makes the rounds of a mirror's supervisor fail from now on, as a bug would: its process lives, its task ends.

Run as a process, with the mirror's namespace as its only argument.
"""

import logging
import os
import sys
from typing import Any


def fail(shell: Any) -> None:
    """Run inside the actor, by Ray."""

    def step() -> None:
        raise RuntimeError("a bug that a test has put here")

    shell._parts.supervisor.step = step
    shell._nudge.set()


def main(namespace: str) -> None:
    """Find the supervisor and spoil it."""
    import ray  # here: a driver's only

    ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False, logging_level=logging.ERROR)
    supervisor: Any = ray.get_actor("supervisor", namespace=namespace)
    ray.get(supervisor.__ray_call__.remote(fail))


if __name__ == "__main__":
    main(sys.argv[1])
