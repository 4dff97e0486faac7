"""Real MirrorMaker 2 of the same release: started on a properties file, killed with kill -9."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from bench.systems.mm2 import REPLICATION_KEYS
from deploy.local.tools import QUICK_FLAGS, start_tool
from tests.harness.mirror import Mirror

_MAIN_CLASS = "org.apache.kafka.connect.mirror.MirrorMaker"
ONE_REPLICA = dict.fromkeys(REPLICATION_KEYS, "1")
"""What MM2 needs on clusters of one broker."""
_QUICK = {"plugin.discovery": "service_load"}
"""Else each of its workers looks for plugins in all classes of the class path."""


def mm2_properties(mirror: Mirror, topics: str, more: Mapping[str, str]) -> dict[str, str]:
    """Return the file of an MM2 with the one flow of a mirror."""
    flow = mirror.flow
    return {
        "clusters": f"{flow.source},{flow.target}",
        f"{flow.source}.bootstrap.servers": mirror.source_servers,
        f"{flow.target}.bootstrap.servers": mirror.target_servers,
        f"{flow}.enabled": "true",
        f"{flow}.topics": topics,
        **ONE_REPLICA,
        **more,
    }


class Mm2:
    """One MM2 process."""

    def __init__(self, folder: Path, properties: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        file, self.log = folder / "mm2.properties", folder / "mm2.log"
        file.write_text("".join(f"{key} = {value}\n" for key, value in {**_QUICK, **properties}.items()))
        self._process = start_tool(_MAIN_CLASS, str(file), log_file=self.log, heap_mib=512, flags=QUICK_FLAGS)

    async def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._process.kill()
        await asyncio.to_thread(self._process.wait)

    def assert_running(self) -> None:
        """Fail with the end of its log if it ended by itself."""
        assert self._process.poll() is None, self.log.read_text()[-3000:]
