"""A driver in a separate process that holds a number of one-CPU actors, as a fleet of copiers does."""

import contextlib
import logging
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from policies.placement.sites import site_share

DEADLINE_S = 120.0


class Demand:
    """The actors of one driver; `site`: where they must run, empty: anywhere."""

    def __init__(self, env: Mapping[str, str], log_file: Path, site: str = "") -> None:
        self._log_file = log_file
        with log_file.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.harness.ray_demand", env["RAY_ADDRESS"], site],
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def hold(self, actors: int) -> None:
        """Hold so many, and wait until all of them answer. The same number as before asks them without the GCS."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{actors}\n")
        self._process.stdin.flush()
        ready = select.select([self._process.stdout], [], [], DEADLINE_S)[0]
        answer = self._process.stdout.readline() if ready else "nothing"
        log = self._log_file.read_text()[-2000:]
        assert answer == f"{actors}\n", f"{actors} actors wanted, answered: {answer!r}; the driver printed:\n{log}"

    def close(self) -> None:
        """End the driver; its actors go with it."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def demand(env: Mapping[str, str], folder: Path, site: str = "") -> Iterator[Demand]:
    """Start a driver without actors on the cluster that `env` names."""
    with contextlib.closing(Demand(env, folder / f"demand{site}.log", site)) as started:
        yield started


def main(address: str, site: str) -> None:
    """Be that driver: each line on standard input is a number, printed again once so many actors have answered."""
    import ray  # here: a driver's only

    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # Ray prints there that a node is gone, log_to_driver or not
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)

    class Idler:
        def answer(self) -> None:
            """Say that it is there."""

    idler: Any = ray.remote(num_cpus=1, resources=site_share(site))(Idler)
    held: list[Any] = []
    for line in sys.stdin:
        wanted = int(line)
        while len(held) > wanted:
            ray.kill(held.pop())
        held += [idler.remote() for _ in range(wanted - len(held))]
        ray.get([one.answer.remote() for one in held])
        answers.write(line)
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
