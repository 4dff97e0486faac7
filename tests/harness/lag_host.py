"""The lag job in a separate process that a test may kill: `python -m tests.harness.lag_host FLOW ...`."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from engine.config.storage import Storage
from engine.core.events.event_base import Event
from engine.jobs.lag.job import run
from engine.jobs.lag.options import LagOptions
from engine.jobs.runtime.idle_wait import IdleWait
from policies.model import FlowName
from tests.harness.spark import local_spark

END_S, AGAIN_S = 60.0, 1.0


class Bucket(NamedTuple):
    """A storage in a bucket, and the variables by which a process finds the store."""

    storage: Storage
    environment: Mapping[str, str]


@contextmanager
def lag_host(
    folder: Path,
    flow: FlowName,
    servers: str,
    *,
    window_s: float,
    log: Path,
    executors: int = 0,
    bucket: Bucket | None = None,
) -> Iterator[int]:
    """Run the job over a storage in a folder; at the end its process is killed, whatever it does. Gives its id.

    `executors`: so many of one core each, in processes of their own; 0: none beside the driver. `bucket`: the storage,
    instead of the folder; a job that fails there runs again, as in a mirror.
    """
    master = f"local-cluster[{executors},1,1024]" if executors else ""
    command = [sys.executable, "-m", "tests.harness.lag_host", *flow, servers, str(folder), str(window_s), master]
    command += [] if bucket is None else [bucket.storage.uri]
    env = {**os.environ, **({} if bucket is None else bucket.environment)}
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=env, start_new_session=True)
    try:
        yield process.pid
        assert process.poll() is None, log.read_text(errors="replace")[-4000:]
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # its JVM too: a machine that is gone
        process.wait(END_S)


def main(
    source: str, target: str, servers: str, folder: str, window_s: str, master: str, storage: str | None = None
) -> None:
    """Run until somebody kills us."""
    options = LagOptions(flow=FlowName(source, target), window_s=float(window_s), watermark_s=600, every_s=1, rest_s=3)
    text = f"clusters = {source}, {target}\nbootstrap.servers = {servers}\n{source}->{target}.enabled = true\n"
    config = read_config(parse_properties(text + "offset.storage.replication.factor = 1\n", "mm2.properties"))
    place = Path(folder)

    def tell(event: Event) -> None:
        sys.stdout.write(event.text() + "\n")
        sys.stdout.flush()

    scratch = place / f"spark-{time.time_ns()}"
    scratch.mkdir(parents=True)
    kept = Storage.of_folder(place) if storage is None else Storage.parse(storage)
    with local_spark(scratch, master=master, storage=kept.uri) as spark:
        while True:
            try:
                run(spark, options, config, kept, threading.Event(), tell, IdleWait())
            except Exception as failed:
                if storage is None:
                    raise
                sys.stdout.write(f"{failed}\n")
                sys.stdout.flush()
                threading.Event().wait(AGAIN_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
