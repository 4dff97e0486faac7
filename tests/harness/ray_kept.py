"""Two detached actors: Ray restarts the one on the head; it does not restart the other.

Run as a process; it prints the process ids of both as JSON.
"""

import json
import logging
import os
from typing import Any

NAMES = ("supervisor", "copier")


def main() -> None:
    """Find both actors or start them, and print where they are."""
    import ray  # here: a driver's only

    ray.init(address=os.environ["RAY_ADDRESS"], namespace="kept", log_to_driver=False, logging_level=logging.ERROR)

    class Kept:
        def pid(self) -> int:
            """Say in which process it is."""
            return os.getpid()

    on_head: Any = ray.remote(num_cpus=0, max_restarts=-1, resources={"node:__internal_head__": 0.001})(Kept)
    elsewhere: Any = ray.remote(num_cpus=1, max_restarts=0)(Kept)
    pids = {}
    for name, kind in zip(NAMES, (on_head, elsewhere), strict=True):
        actor = kind.options(name=name, lifetime="detached", get_if_exists=True).remote()
        pids[name] = ray.get(actor.pid.remote())
    print(json.dumps(pids))  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
