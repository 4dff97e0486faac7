"""Another program's local Ray, in a separate process: started, checked for work, ended by the end of its input.

Run as a program it starts Ray, reports that, and answers every line with the result of a Ray task.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.harness.ray_node import MOST_TRIES
from tests.harness.ray_temp import ray_temp_folder
from tests.harness.shell import ROOT

END_DEADLINE_S = 180.0


class ForeignRay:
    """A running Ray that knows nothing of mirrors."""

    def __init__(self, env: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "tests.harness.foreign_ray"]
        self._process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert self._answer() == "started"

    def works(self) -> bool:
        """Whether it still runs a task."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._answer() == "42"

    def end(self) -> None:
        """Have it shut down in order."""
        self._process.communicate(timeout=END_DEADLINE_S)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def foreign_ray(env: Mapping[str, str]) -> Iterator[ForeignRay]:
    """Start one; its files lie in a folder of its own."""
    with ray_temp_folder() as folder:
        foreign = ForeignRay({**env, "RAY_TMPDIR": folder})
        try:
            yield foreign
        finally:
            foreign.end()


def main() -> None:
    """Be that Ray."""
    import ray

    words: dict[str, Any] = {
        "num_cpus": 1,
        "include_dashboard": False,
        "object_store_memory": 80_000_000,
        "log_to_driver": False,
    }
    for tries in range(1, MOST_TRIES + 1):
        try:
            ray.init(address="local", **words)
            break
        except Exception:  # Ray gives its own processes 15 s to start, which a machine at its limit does not keep
            if tries == MOST_TRIES:
                raise
            ray.shutdown()
    print("started", flush=True)  # noqa: T201 - how the parent is told
    answer = ray.remote(lambda: 42)
    for _line in sys.stdin:
        print(ray.get(answer.remote()), flush=True)  # noqa: T201
    ray.shutdown()


if __name__ == "__main__":
    main()
