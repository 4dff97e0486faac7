"""What a person does with raymirror and with MM2 to go over by plan, and back: each thing is noted at the desk.

MM2 has no command for either way. What is scripted is what its users are told to do: stop the applications, wait until
everything and the groups' offsets are there, stop MM2, start the applications on the other cluster. The way back:
the old cluster is made anew, empty, and MM2 copies everything to it (Strimzi's documentation of disaster recovery with
MirrorMaker 2 says so, because swapping the roles may copy records back). Its intervals for groups are 10 s instead of
60, which is in its favour.
"""

import shutil
import time
from pathlib import Path
from typing import Protocol

import msgspec

from bench.errors import BenchError
from bench.story.desk import DEADLINE_S, Desk
from bench.story.scene import GROUP, TOPIC, Scene, write_properties
from bench.story.trip import SETTINGS, A, B
from deploy.local.errors import ClusterError
from deploy.local.tools import SERVER_FLAGS, java_command

_HEAP_MIB = 2048
_EVERY_S = 10
SYNCED_S = 2.0 * _EVERY_S
"""Seconds after which MM2 has written a checkpoint of a stopped group, and has committed it."""
_MIRROR_MAKER = "org.apache.kafka.connect.mirror.MirrorMaker"
_OFFSETS, _GROUPS = (
    "org.apache.kafka.tools.GetOffsetShell",
    "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
)
_LOOK_S = 2.0
_NO_TOPIC = "Could not match any topic-partitions"


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A move: seconds in which nobody wrote, and by how much the topic's segments grew on the cluster that serves now,
    since it served before, or since it was made anew.
    """

    still_s: float
    copied_bytes: int


class Script(Protocol):
    """What a person does. Applications are on A at first."""

    def start(self) -> None:
        """Start the mirror of A->B."""

    def over(self) -> Moved:
        """Move to B."""

    def back(self) -> Moved:
        """Move to A."""

    def end(self) -> None:
        """Stop what still runs."""


class RaymirrorScript:
    """Two commands each way: the switchover, and the mirror of the other direction."""

    def __init__(self, scene: Scene, desk: Desk) -> None:
        self._scene, self._desk, self._apps = scene, desk, Applications(scene, desk)
        more = {**SETTINGS, "raymirror.dr.fence.command": str(scene.fence_command)}
        self._there = write_properties(desk.folder / "ab.properties", {**scene.settings(A, B), **more})
        self._back = desk.folder / "ba.properties"

    def start(self) -> None:
        """See Script."""
        self._desk.start_mirror(self._there)
        self._wait_for_lag(self._scene.size.per_s)

    def over(self) -> Moved:
        """See Script."""
        return self._move(A, B, self._there, self._back, "--reverse-config", str(self._back))

    def back(self) -> Moved:
        """See Script."""
        self._wait_for_lag(self._scene.size.per_s)
        return self._move(B, A, self._back, self._there)

    def end(self) -> None:
        """See Script."""
        self._desk.close()

    def _move(self, source: str, target: str, config: Path, other: Path, *words: str) -> Moved:
        desk = self._desk
        self._apps.stop_consumers(source)
        desk.raymirror("dr", "switchover", f"{source}->{target}", "--config", str(config), "--yes", *words)
        self._apps.are_fenced()
        moved = self._apps.start(target)
        desk.wait_ended()
        desk.start_mirror(other)
        return moved

    def _wait_for_lag(self, most: int) -> None:
        lanes = self._scene.size.partitions
        self._desk.until(
            lambda status: status["flows"][0]["lanes"] == lanes and status["flows"][0]["lag_records"] <= most,
            "the mirror has caught up",
        )


class Mm2Script:
    """MM2 in dedicated mode, one direction at a time."""

    def __init__(self, scene: Scene, desk: Desk) -> None:
        self._scene, self._desk, self._apps = scene, desk, Applications(scene, desk)

    def start(self) -> None:
        """See Script."""
        self._run(A, B)
        self._wait_copied(A, B, self._scene.size.per_s * 10)

    def over(self) -> Moved:
        """See Script."""
        return self._move(A, B)

    def back(self) -> Moved:
        """Make A anew, empty; copy everything; move."""
        self._make_anew(A)
        began_s = time.monotonic()
        self._run(B, A)
        self._desk.note("write the configuration of the other direction", began_s)
        self._wait_copied(B, A, self._scene.size.per_s * 10)
        return self._move(B, A)

    def end(self) -> None:
        """See Script."""
        self._desk.close()

    def _run(self, source: str, target: str) -> None:
        file = write_properties(
            self._desk.folder / f"mm2-{source}-{target}.properties",
            {
                **self._scene.settings(source, target),
                "emit.heartbeats.enabled": "false",
                "refresh.topics.interval.seconds": "5",
                "refresh.groups.interval.seconds": str(_EVERY_S),
                "emit.checkpoints.interval.seconds": str(_EVERY_S),
                "sync.group.offsets.enabled": "true",
                "sync.group.offsets.interval.seconds": str(_EVERY_S),
                "sync.topic.acls.enabled": "false",
            },
        )
        command = java_command(_MIRROR_MAKER, str(file), heap_mib=_HEAP_MIB, flags=SERVER_FLAGS)
        self._desk.start(command, f"connect-mirror-maker.sh {file.name}")

    def _move(self, source: str, target: str) -> Moved:
        self._apps.stop_consumers(source)
        stopped_s = time.monotonic()
        self._apps.stop_producers(source)
        self._wait_copied(source, target, 0)
        self._wait_synced(target, stopped_s)
        self._desk.stop("stop MM2")
        return self._apps.start(target)

    def _wait_copied(self, source: str, target: str, most: int) -> None:
        """Look at the ends of both topics until at most so many records are missing."""
        give_up_s = time.monotonic() + DEADLINE_S
        while True:
            self._desk.require_running()
            here, there = (self._ends(cluster) for cluster in (source, target))
            if sum(here.values()) - sum(there.values()) <= most and here.keys() == there.keys():
                return
            if time.monotonic() > give_up_s:
                raise BenchError("mm2", f"{target} has {there}, {source} {here}{self._desk.told()}")
            time.sleep(_LOOK_S)

    def _ends(self, cluster: str) -> dict[int, int]:
        words = ("--bootstrap-server", self._scene.address(cluster), "--topic-partitions", TOPIC)
        try:
            return ends_of(self._desk.kafka(_OFFSETS, *words))
        except ClusterError as error:
            if _NO_TOPIC in str(error):
                return {}  # MM2 has not made it yet: look again
            raise

    def _wait_synced(self, target: str, stopped_s: float) -> None:
        """Wait as long as MM2 needs for a stopped group, then look until its offsets no longer change."""
        time.sleep(max(0.0, stopped_s + SYNCED_S - time.monotonic()))
        give_up_s, before = time.monotonic() + DEADLINE_S, dict[int, int]()
        words = ("--bootstrap-server", self._scene.address(target), "--describe", "--group", GROUP)
        while True:
            now = offsets_of(self._desk.kafka(_GROUPS, *words), TOPIC)
            if len(now) == self._scene.size.partitions and now == before:
                return
            if time.monotonic() > give_up_s:
                raise BenchError("mm2", f"the group's offsets on {target} are not there: {now}{self._desk.told()}")
            before = now
            time.sleep(_EVERY_S)

    def _make_anew(self, cluster: str) -> None:
        """Stop the brokers of a cluster, remove their data, format and start them."""
        anew, began_s = self._scene.clusters[cluster], time.monotonic()
        for broker in anew.brokers:
            broker.stop()
        self._desk.note(f"kafka-server-stop.sh on {cluster}", began_s)
        began_s = time.monotonic()
        for broker in anew.brokers:
            shutil.rmtree(broker.data_folder)
        self._desk.note(f"remove the data of {cluster}", began_s)
        began_s = time.monotonic()
        anew.bring_up()
        self._apps.forget(cluster)
        self._desk.note(f"kafka-storage.sh format on {cluster}", began_s)
        self._desk.note(f"kafka-server-start.sh on {cluster}", time.monotonic())


class Applications:
    """Producers and consumers, as a person stops and starts them."""

    def __init__(self, scene: Scene, desk: Desk) -> None:
        self._scene, self._desk = scene, desk
        self._held: dict[str, int] = {}
        self._ended_s = 0.0

    def stop_consumers(self, cluster: str) -> None:
        """Stop the group."""
        began_s = time.monotonic()
        self._scene.end_group()
        self._desk.note(f"stop the consumers on {cluster}", began_s)

    def stop_producers(self, cluster: str) -> None:
        """Stop the load."""
        began_s = time.monotonic()
        self._end(cluster, "end")
        self._desk.note(f"stop the producers on {cluster}", began_s)

    def are_fenced(self) -> None:
        """Take note that a fence has stopped the load."""
        self._end(self._scene.serving, "")

    def forget(self, cluster: str) -> None:
        """Take note that a cluster holds nothing any more."""
        self._held.pop(cluster, None)

    def start(self, cluster: str) -> Moved:
        """Start both on a cluster."""
        copied = self._scene.log_bytes(cluster) - self._held.get(cluster, 0)
        began_s = time.monotonic()
        still_s = self._scene.start_load(cluster) - self._ended_s
        self._desk.note(f"start the producers on {cluster}", began_s)
        began_s = time.monotonic()
        self._scene.start_group(cluster)
        self._desk.note(f"start the consumers on {cluster}", began_s)
        return Moved(still_s=still_s, copied_bytes=copied)

    def _end(self, cluster: str, word: str) -> None:
        self._ended_s = self._scene.end_load(word).ended_s
        self._held[cluster] = self._scene.log_bytes(cluster)


def ends_of(said: str) -> dict[int, int]:
    """Read the lines `TOPIC:PARTITION:OFFSET` of kafka-get-offsets."""
    rows = [line.split(":") for line in said.split() if line.count(":") == 2]
    return {int(partition): int(offset) for _, partition, offset in rows if offset.isdecimal()}


def offsets_of(said: str, topic: str) -> dict[int, int]:
    """Read the committed offsets of a topic in what kafka-consumer-groups describes."""
    rows = [line.split() for line in said.splitlines()]
    return {int(row[2]): int(row[3]) for row in rows if len(row) > 3 and row[1] == topic and row[3].isdecimal()}
