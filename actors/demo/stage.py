"""Holds the demo's clusters, folder and clock, and takes everything down in the right order."""

import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from actors.observability.view import View
from deploy.local.cluster import EmbeddedCluster, start_clusters
from engine.config.storage import Storage
from policies.model import FlowName

FLOW = FlowName("source", "target")
SPARK_MEMORY_MIB = 512
"""The heap of the one executor."""


class DemoStage:
    """A temporary folder with two clusters. Everything that is started goes on `stack`, which ends it."""

    def __init__(self, folder: Path, stack: ExitStack, view: View, *, keep: bool) -> None:
        self.folder, self.stack, self.is_kept = folder, stack, keep
        self.began_at = time.monotonic()
        self._view = view
        self.source = EmbeddedCluster(FLOW.source, folder / FLOW.source)
        self.target = EmbeddedCluster(FLOW.target, folder / FLOW.target)

    def keep(self) -> None:
        """Do not delete the folder at the end: its data or logs are of interest."""
        self.is_kept = True

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        self._view.say(f"{time.monotonic() - self.began_at:5.1f} s  {text}")

    def start_clusters(self) -> None:
        """Start both clusters in parallel. Raises ClusterError."""
        self.stack.callback(self._stop_clusters)
        start_clusters(self.source, self.target)

    @property
    def storage(self) -> Storage:
        """Where the mirror with Spark keeps its tables."""
        return Storage.of_folder(self.folder / "storage")

    def write_config(self, *, spark: bool) -> Path:
        """Write the mm2.properties of the demo, as a user would write it. Raises BadStorage."""
        path = self.folder / "mm2.properties"
        path.write_text(
            "# what MirrorMaker 2 would be given for the same job\n"
            "clusters = source, target\n"
            f"source.bootstrap.servers = {self.source.bootstrap_servers}\n"
            f"target.bootstrap.servers = {self.target.bootstrap_servers}\n"
            "source->target.enabled = true\n"
            "source->target.topics = .*\n"
            "replication.factor = 1\n"
            "offset.storage.replication.factor = 1\n"
            f"{self._spark_properties() if spark else ''}"
        )
        return path

    def _spark_properties(self) -> str:
        return (
            "\n# what MirrorMaker 2 does not have: Spark, and tables of what it finds\n"
            "raymirror.spark = on\n"
            f"raymirror.spark.executor.memory.bytes = {SPARK_MEMORY_MIB * 1024 * 1024}\n"
            f"raymirror.storage = {self.storage.uri}\n"
        )

    def _stop_clusters(self) -> None:
        with ThreadPoolExecutor(2) as pool:
            for future in [pool.submit(cluster.stop) for cluster in (self.source, self.target)]:
                future.result()


@contextmanager
def open_stage(view: View, keep: bool) -> Iterator[DemoStage]:
    """Yield a stage; end everything afterwards, also after an error or a signal; print the folder of logs if kept."""
    folder = Path(tempfile.mkdtemp(prefix="rmdemo-"))
    is_kept = True
    try:
        with ExitStack() as stack:
            stage = DemoStage(folder, stack, view, keep=keep)
            yield stage
            is_kept = stage.is_kept
            _deaf()  # the demo is ending: Ctrl-C must not leave half of it running
    finally:
        if is_kept:
            view.say(f"data and logs are in {folder}")
        else:
            shutil.rmtree(folder)


def raise_on_signals() -> None:
    """Let SIGTERM do what Ctrl-C does. Call it again after `ray.init`, which sets its own handler for SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    _deaf()  # the takedown follows: its time is bounded, and it must not be interrupted
    raise KeyboardInterrupt


def _deaf() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
