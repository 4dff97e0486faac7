"""Two clusters by names of one world, its topics, its configuration and its mirror; a round after the other in it."""

import asyncio
import contextlib
import stat
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from bench.admin import create_topic
from bench.dr.commands import environment
from bench.errors import BenchError
from bench.recovery.fronted import FrontedCluster
from bench.recovery.mirror import MirrorRun
from bench.recovery.stage import Stage

IDENTITY, DEFAULT = "identity", "default"
_CLASSES = {
    IDENTITY: "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    DEFAULT: "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
}
_START_S, _END_S = 600.0, 180.0
_GATE = """#!/bin/sh
gate="{folder}/gate-${{2%%->*}}"
case "$1" in
close) cat > "$gate.topics"; touch "$gate" ;;
open) rm -f "$gate" ;;
esac
"""


class World:
    """One flow between the clusters of a stage, with names that no other world has. `here` serves, `there` follows."""

    def __init__(self, stage: Stage, folder: Path, tag: str, policy: str) -> None:
        folder.mkdir(parents=True)
        self.stage, self.folder, self.tag, self.policy = stage, folder, tag, policy
        self.here, self.there = f"{tag}a", f"{tag}b"
        self._clusters = {self.here: stage.source, self.there: stage.target}
        self.topics: Mapping[str, int] = {f"{tag}-plain": 2, f"{tag}-tx": 2, f"{tag}-keys": 1}
        self.env = environment(folder)
        self.mirror: MirrorRun | None = None
        self._starts = self._rounds = 0
        self._script = folder / "fence.sh"
        self._script.write_text(_GATE.format(folder=folder))
        self._script.chmod(self._script.stat().st_mode | stat.S_IXUSR)

    def next_round(self) -> int:
        """Give a round its number, which is in all its names."""
        self._rounds += 1
        return self._rounds

    @property
    def flow(self) -> str:
        """The flow of the present direction."""
        return f"{self.here}->{self.there}"

    @property
    def keys_topic(self) -> str:
        """The compacted topic."""
        return f"{self.tag}-keys"

    @property
    def renames(self) -> bool:
        """Whether copies have other names."""
        return self.policy == DEFAULT

    def cluster(self, alias: str) -> FrontedCluster:
        """Give a cluster by its name in this world."""
        cluster = self._clusters[alias]
        assert isinstance(cluster, FrontedCluster)
        return cluster

    def servers(self, alias: str) -> str:
        """The addresses for clients: they never go through a proxy."""
        return self.cluster(alias).bootstrap_servers

    def gate(self, alias: str) -> Path:
        """The file that keeps producers from a cluster."""
        return self.folder / f"gate-{alias}"

    def names_on(self, alias: str) -> dict[str, str]:
        """Return the topics of a side, each with its writers' name."""
        other = self.there if alias == self.here else self.here
        copies = {f"{other}.{topic}": topic for topic in self.topics} if self.renames else {}
        return {topic: topic for topic in self.topics} | copies

    @property
    def config(self) -> Path:
        """The file of the present direction."""
        return self.folder / f"{self.flow.replace('->', '-')}.properties"

    @property
    def export(self) -> Path:
        """Where failbacks export to, each to a folder of its own in it."""
        return self.folder / "export"

    def make(self) -> None:
        """Create the topics where producers need them, and start the mirror. Raises BenchError."""
        for alias in (self.here, self.there) if self.renames else (self.here,):
            for topic, partitions in self.topics.items():
                compacted = {"cleanup.policy": "compact", "segment.ms": "2000", "min.cleanable.dirty.ratio": "0.01"}
                self._create(alias, topic, partitions, compacted if topic == self.keys_topic else {})
        self.start_mirror()

    def _create(self, alias: str, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        asyncio.run(create_topic(self.servers(alias), topic, partitions, configs, replicas=3))

    def write_config(self) -> None:
        """Write the file of the present direction; names are kept by one direction at a time."""
        flow, back = self.flow, f"{self.there}->{self.here}"
        lines = {
            "clusters": f"{self.here}, {self.there}",
            **{f"{one}.bootstrap.servers": self.cluster(one).mirror_servers for one in (self.here, self.there)},
            f"{flow}.enabled": "true",
            f"{back}.enabled": "true" if self.renames else "false",
            **{f"{one}.topics": f"{self.tag}-.*" for one in (flow, back)},
            **{f"{one}.groups": f"{self.tag}-.*" for one in (flow, back)},
            "replication.policy.class": _CLASSES[self.policy],
            "replication.factor": "3",
            "offset.storage.replication.factor": "3",
            "offset-syncs.topic.replication.factor": "3",
            "refresh.topics.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "sync.topic.acls.enabled": "false",
            "emit.heartbeats.enabled": "false",
            "heartbeats.replication.enabled": "false",
            "raymirror.dr.fence.command": str(self._script),
        }
        self.config.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))

    def start_mirror(self, *more: str) -> None:
        """Start the mirror of the present direction, without waiting for it; `more`: words for `run`."""
        self.write_config()
        self._starts += 1
        folder = self.folder / f"mirror-{self._starts}"
        folder.mkdir()
        self.mirror = MirrorRun(self.config, folder, env=self.env, name="", more=more)

    def wait_mirror(self) -> None:
        """Wait until the mirror copies every partition of the present direction. Raises BenchError."""
        mirror, give_up_at = self._running(), time.monotonic() + _START_S
        while time.monotonic() < give_up_at:
            mirror.require_running()
            if self._copies(self.flow):
                return
            time.sleep(0.2)
        raise BenchError("raymirror", f"{self.flow} does not copy after {_START_S:.0f} s: {mirror.told()}")

    def _copies(self, flow: str) -> bool:
        flows = [one for one in self._running().status().get("flows", ()) if one["flow"] == flow]
        return bool(flows) and flows[0]["lanes"] >= sum(self.topics.values()) and not flows[0]["unknown_lanes"]

    def wait_answer(self) -> str:
        """Wait until the mirror has a status, or has ended; return what it said then. Raises BenchError."""
        mirror, give_up_at = self._running(), time.monotonic() + _START_S
        while time.monotonic() < give_up_at:
            if mirror.process.poll() is not None:
                return mirror.told() or "(nothing)"
            if mirror.status().get("flows"):
                return ""
            time.sleep(0.2)
        raise BenchError("raymirror", f"no status after {_START_S:.0f} s: {mirror.told()}")

    def has_ended(self) -> bool:
        """Wait until the mirror has ended by itself; false if it still runs after a long time."""
        mirror, give_up_at = self._running(), time.monotonic() + _END_S
        while mirror.process.poll() is None and time.monotonic() < give_up_at:
            time.sleep(0.2)
        return mirror.process.poll() is not None

    def _running(self) -> MirrorRun:
        if self.mirror is None:
            raise BenchError("dr", f"no mirror of {self.flow} was started")
        return self.mirror

    def actor(self, title: str) -> psutil.Process | None:
        """Give the oldest living actor of a title; None without one."""
        found = self._running().actors(title)
        return found[0] if found else None

    def kill_mirror(self) -> bool:
        """Kill `raymirror run` and every process below it, by pid; False if it had ended."""
        mirror = self._running()
        if mirror.process.poll() is not None:
            return False
        tree = psutil.Process(mirror.process.pid).children(recursive=True)
        mirror.process.kill()
        mirror.process.wait()
        for one in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(tree, timeout=10.0)
        return True

    def end_mirror(self) -> None:
        """End the mirror in order, or kill it."""
        if self.mirror is not None:
            self.mirror.end()
        self.mirror = None

    def turn(self) -> None:
        """The other cluster serves."""
        self.here, self.there = self.there, self.here
