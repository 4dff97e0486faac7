"""A real Connect cluster of one worker, with MM2's source connector submitted as in any Connect cluster."""

import asyncio
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from deploy.local.ports import pick_ports
from deploy.local.tools import QUICK_FLAGS, start_tool
from tests.harness.mirror import Mirror

_MAIN_CLASS = "org.apache.kafka.connect.cli.ConnectDistributed"
_PACKAGE = "org.apache.kafka.connect.mirror"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def source_connector(mirror: Mirror, topics: str) -> dict[str, str]:
    """Return the configuration of MM2's source connector for the one flow of a mirror."""
    return connector_of("Source", mirror, topics)


def connector_of(kind: str, mirror: Mirror, topics: str) -> dict[str, str]:
    """Return the configuration of one of MM2's connectors: `Source`, `Checkpoint` or `Heartbeat`."""
    return {
        "connector.class": f"{_PACKAGE}.Mirror{kind}Connector",
        "source.cluster.alias": mirror.flow.source,
        "target.cluster.alias": mirror.flow.target,
        "source.cluster.bootstrap.servers": mirror.source_servers,
        "target.cluster.bootstrap.servers": mirror.target_servers,
        "topics": topics,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "emit.checkpoints.interval.seconds": "1",
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "header.converter": _BYTES,
        "tasks.max": "1",
    }


class ConnectWorker:
    """One worker process on a mirror's target."""

    def __init__(self, folder: Path, mirror: Mirror, *, group: str, positions_topic: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (self.port,) = pick_ports(1)
        self._url = f"http://127.0.0.1:{self.port}"
        self.file, self.log = folder / "worker.properties", folder / "worker.log"
        properties = {
            "bootstrap.servers": mirror.target_servers,
            "group.id": group,
            "listeners": self._url,
            "key.converter": _BYTES,
            "value.converter": _BYTES,
            "offset.storage.topic": positions_topic,
            "config.storage.topic": f"{group}-configs",
            "status.storage.topic": f"{group}-status",
            "offset.storage.replication.factor": "1",
            "config.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "offset.flush.interval.ms": "1000",
            "plugin.discovery": "service_load",
        }
        self.file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
        self._process = start_tool(_MAIN_CLASS, str(self.file), log_file=self.log, heap_mib=512, flags=QUICK_FLAGS)

    async def submit(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector, as soon as the worker takes requests."""
        body = json.dumps(dict(config)).encode()
        request = urllib.request.Request(
            f"{self._url}/connectors/{urllib.parse.quote(name, safe='')}/config",
            data=body,
            method="PUT",
            headers={"Content-Type": "application/json"},
        )
        while True:
            self.assert_running()
            try:
                await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=60).close())
            except (urllib.error.URLError, TimeoutError, ConnectionError):  # it starts, or rebalances (409)
                await asyncio.sleep(0.2)
            else:
                return

    async def connectors(self) -> bytes:
        """Ask for all connectors with their configurations, as its REST shows them."""
        url = f"{self._url}/connectors?expand=info"
        return await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=60).read())

    async def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._process.kill()
        await asyncio.to_thread(self._process.wait)

    def assert_running(self) -> None:
        """Fail with the end of its log if it ended by itself."""
        assert self._process.poll() is None, self.log.read_text()[-3000:]
