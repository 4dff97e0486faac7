"""Runs one broker process: formats, starts, probes, stops, kills and restarts it, with the same port and data."""

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from deploy.local import probe
from deploy.local.class_archive import reading_flags
from deploy.local.errors import ClusterError, last_telling_line
from deploy.local.formatting import format_as_before, keep_checkpoint
from deploy.local.limits import require_disk
from deploy.local.ports import HOST, is_free
from deploy.local.settings import BrokerPorts, encode_logging, encode_properties
from deploy.local.tools import QUICK_FLAGS, SERVER_FLAGS, java_command, require_success, start_tool

START_DEADLINE_S = 120.0
STOP_DEADLINE_S = 30.0
POLL_S = 0.05
FIRST_HEAP_MIB = 256


class Broker:
    """A broker of an embedded cluster.

    It has `folder/server.properties`, `folder/data/` and `folder/broker.log`. Its ports never change, so that clients
    find it again after a restart.
    """

    jvm_flags: tuple[str, ...] = SERVER_FLAGS
    """Flags for Java; for short-lived brokers see `QUICK_FLAGS`."""

    def __init__(self, address: BrokerPorts, everyone: list[BrokerPorts], folder: Path, cluster_id: str) -> None:
        self.address = address
        self.folder = folder
        self.log_file = folder / "broker.log"
        self.log_levels: Mapping[str, str] = {}
        self.classpath = ""
        """Jars of another release of Kafka; empty: the jars that deploy/local lists."""
        self._everyone = everyone
        self._cluster_id = cluster_id
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def node_id(self) -> int:
        """Kafka's id of this broker."""
        return self.address.node_id

    @property
    def port(self) -> int:
        """The port for clients, on 127.0.0.1."""
        return self.address.port

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def data_folder(self) -> Path:
        """Kafka's log.dirs: a folder per partition."""
        return self.folder / "data"

    def prepare(self, overrides: Mapping[str, str]) -> subprocess.Popen[bytes] | None:
        """Write the configuration and format the data folder, or start doing so: the process is for `formatted`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        require_disk(self.folder)
        text = encode_properties(self.address, self._everyone, self.data_folder, overrides)
        self._properties.write_text(text)
        self._log_configuration.write_text(encode_logging(self.log_levels))
        if not self.classpath and format_as_before(self.data_folder, self._cluster_id, self.node_id):
            return None
        args = ("format", "--cluster-id", self._cluster_id, "--config", str(self._properties), "--ignore-formatted")
        return start_tool(
            "kafka.tools.StorageTool",
            *args,
            log_file=self._format_log,
            heap_mib=256,
            flags=QUICK_FLAGS,
            classpath=self.classpath,
        )

    def formatted(self, process: subprocess.Popen[bytes] | None) -> None:
        """Wait until the data folder is formatted; raises ClusterError if that fails."""
        if process is None:
            return
        process.wait()
        require_success(process, f"formatting broker {self.node_id}", self._format_log)
        if not self.classpath:
            keep_checkpoint(self.data_folder)

    def launch(self, heap_mib: int = 1024) -> None:
        """Start the process without waiting for it; raises ClusterError if its ports are taken."""
        for port in (self.address.port, self.address.controller_port):
            if not is_free(port):
                raise ClusterError(f"broker {self.node_id} cannot start", f"port {port} on {HOST} is taken")
        archived = () if self.classpath else reading_flags()
        flags = (*self.jvm_flags, *archived, f"-Xms{min(FIRST_HEAP_MIB, heap_mib)}m")
        command = java_command(
            "kafka.Kafka",
            str(self._properties),
            heap_mib=heap_mib,
            flags=flags,
            log_configuration=self._log_configuration,
            classpath=self.classpath,
        )
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def wait_ready(self, alive: int) -> None:
        """Wait until it answers requests and sees that many living brokers, itself among them; raises ClusterError."""
        deadline_at = time.monotonic() + START_DEADLINE_S
        last_answer = "no answer"
        while time.monotonic() < deadline_at:
            self._require_running()
            try:
                seen = probe.living_brokers(HOST, self.port)
            except OSError as error:
                last_answer = str(error)
            else:
                if self.node_id in seen and len(seen) >= alive:
                    return
                last_answer = f"sees the brokers {sorted(seen)}"
            self.pause()
        raise ClusterError(
            f"broker {self.node_id} is not ready after {START_DEADLINE_S:.0f} s", last_answer, self.log_file
        )

    def start(self, alive: int = 1, heap_mib: int = 1024) -> None:
        """Start it (again) and wait until it is ready."""
        if self.pid is None:
            self.launch(heap_mib)
        self.wait_ready(alive)

    def ask_to_stop(self) -> None:
        """Send SIGTERM, to this process only."""
        if self.pid is not None and self._process is not None:
            self._process.terminate()

    def wait_stopped(self) -> None:
        """Wait for its end; kill it after STOP_DEADLINE_S seconds (without a quorum Kafka waits for ever)."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout=STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def stop(self) -> None:
        """Stop it cleanly: partitions led by others first, logs flushed."""
        self.ask_to_stop()
        self.wait_stopped()

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Wait for a moment, or for the end of the process."""
        if self._process is not None:
            try:
                self._process.wait(timeout=POLL_S)
            except subprocess.TimeoutExpired:
                return

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _format_log(self) -> Path:
        return self.folder / "format.log"

    @property
    def _log_configuration(self) -> Path:
        return self.folder / "log4j2.properties"

    def _require_running(self) -> None:
        if self._process is None:
            raise ClusterError(f"broker {self.node_id}", "was never launched")
        code = self._process.poll()
        if code is not None:
            cause = last_telling_line(self.log_file) or "its log is empty"
            raise ClusterError(
                f"broker {self.node_id} ended with exit code {code} while starting", cause, self.log_file
            )
