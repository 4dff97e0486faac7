"""Two clusters A and B, one topic that keeps its name, and the applications: a load and a group that move along.

The fence of an operation is a file: `raymirror.dr.fence.command` makes and removes `gate-CLUSTER`, the load ends when
it sees it, and the command waits for that end. So the load runs until the fence, as behind an ACL.
"""

import stat
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench.errors import BenchError
from bench.kafka_peek import KafkaPeek
from bench.recovery.helper import Helper
from bench.recovery.reader import Copy, ReadSpec, read_copy
from bench.story.group import GroupSpec, read_numbers
from bench.story.judging import STRIDE, Numbers, Stint
from bench.story.load import LoadSpec
from deploy.local.cluster import EmbeddedCluster

TOPIC, GROUP = "bench-story", "bench-story-group"
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
PATIENCE_S = 600.0
_SETTLED_S = 0.5
_FENCE = """\
#!/bin/sh
# close: the load sees the gate and ends; waits until it has. open: takes the gate away.
cluster="${2%%->*}"
case "$1" in
close) : > "FOLDER/gate-$cluster"; while [ -e "FOLDER/alive-$cluster" ]; do sleep 0.05; done ;;
open) rm -f "FOLDER/gate-$cluster" ;;
*) exit 2 ;;
esac
"""


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How much runs: records a second in all, over the partitions; members of the group."""

    partitions: int = 8
    per_s: int = 1_000
    members: int = 2


class Stay(msgspec.Struct, frozen=True, kw_only=True):
    """What the group read while it was on one cluster."""

    cluster: str
    numbers: dict[int, Numbers]

    @property
    def records(self) -> int:
        """Readings."""
        return sum(int(one.size) for one in self.numbers.values())


class Scene:
    """The clusters by name, and the applications on the one that serves."""

    def __init__(self, folder: Path, clusters: dict[str, EmbeddedCluster], size: Size) -> None:
        self.folder, self.clusters, self.size = folder, clusters, size
        self.stints: list[Stint] = []
        self.stays: list[Stay] = []
        self._load: tuple[str, Helper] | None = None
        self._group: tuple[str, Helper, Path] | None = None
        self._stack = ExitStack()
        self._write_fence()

    def address(self, cluster: str) -> str:
        """Bootstrap servers of a cluster."""
        return self.clusters[cluster].bootstrap_servers

    def settings(self, source: str, target: str) -> dict[str, str]:
        """Return what any mirror of the flow needs, in the words of MM2."""
        flow = f"{source}->{target}"
        return {
            "clusters": f"{source}, {target}",
            f"{source}.bootstrap.servers": self.address(source),
            f"{target}.bootstrap.servers": self.address(target),
            f"{flow}.enabled": "true",
            f"{flow}.topics": f"{TOPIC}.*",
            f"{flow}.groups": f"{GROUP}.*",
            "replication.policy.class": IDENTITY,
            "replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "config.storage.replication.factor": "1",
        }

    @property
    def serving(self) -> str:
        """The cluster that the load writes to. Raises BenchError without a load."""
        if self._load is None:
            raise BenchError("load", "it does not run")
        return self._load[0]

    # --- the load ----------------------------------------------------------------------------------------------------

    def start_load(self, cluster: str) -> float:
        """Begin a stint; return when its first record was acknowledged (Unix time).

        Raises BenchError if the fence of that cluster is still there.
        """
        gate = self._gate(cluster)
        if gate.exists():
            raise BenchError("fence", f"the fence of cluster {cluster} was not taken away")
        spec = LoadSpec(
            bootstrap=self.address(cluster),
            topic=TOPIC,
            partitions=self.size.partitions,
            per_s=self.size.per_s,
            first=len(self.stints) * STRIDE,
            gate=str(gate),
            alive=str(self._alive(cluster)),
        )
        helper = self._stack.enter_context(Helper("bench.story.load", spec, self.folder / "load.log"))
        self._load = cluster, helper
        return float(helper.hear(PATIENCE_S)["started"])

    def end_load(self, word: str = "end") -> Stint:
        """End the stint, in order, or with `crash`; without a word if a fence has ended it. Raises BenchError."""
        cluster = self.serving
        assert self._load is not None
        _, helper = self._load
        if word:
            helper.say(word)
        stint = msgspec.convert(helper.hear(PATIENCE_S), Stint, strict=False)
        self._alive(cluster).unlink(missing_ok=True)
        self.stints.append(stint)
        self._load = None
        return stint

    # --- the group ---------------------------------------------------------------------------------------------------

    def start_group(self, cluster: str) -> None:
        """Let the group join on a cluster, and wait until it has every partition."""
        file = self.folder / f"read-{len(self.stays)}.npz"
        spec = GroupSpec(
            bootstrap=self.address(cluster),
            topic=TOPIC,
            partitions=self.size.partitions,
            group=GROUP,
            members=self.size.members,
            file=str(file),
        )
        helper = self._stack.enter_context(Helper("bench.story.group", spec, self.folder / "group.log"))
        if not helper.hear(PATIENCE_S)["assigned"]:
            raise BenchError("group", "it ended before it had its partitions")
        self._group = cluster, helper, file

    def end_group(self) -> Stay:
        """Let every member commit and leave. Raises BenchError."""
        if self._group is None:
            raise BenchError("group", "it does not run")
        cluster, helper, file = self._group
        helper.say("end")
        helper.hear(PATIENCE_S)
        stay = Stay(cluster=cluster, numbers=read_numbers(file))
        self.stays.append(stay)
        self._group = None
        return stay

    def let_group_finish(self) -> Stay:
        """Wait until the group has read to the end of its cluster, which nobody writes to any more; then end it."""
        if self._group is None:
            raise BenchError("group", "it does not run")
        cluster, *_ = self._group
        give_up_s = time.monotonic() + PATIENCE_S
        while self.group_lag(cluster) > 0:
            if time.monotonic() > give_up_s:
                raise BenchError("group", f"it has not read to the end within {PATIENCE_S:.0f} s")
            time.sleep(_SETTLED_S)
        return self.end_group()

    def group_lag(self, cluster: str) -> int:
        """Return how many offsets the group has not committed on a cluster."""
        from confluent_kafka import Consumer, TopicPartition

        client = Consumer({"bootstrap.servers": self.address(cluster), "group.id": GROUP})
        try:
            places = [TopicPartition(TOPIC, at) for at in range(self.size.partitions)]
            lag = 0
            for one in client.committed(places, timeout=PATIENCE_S):
                low, high = client.get_watermark_offsets(TopicPartition(TOPIC, one.partition), timeout=PATIENCE_S)
                lag += high - max(low, one.offset)
            return lag
        finally:
            client.close()

    # --- the logs ----------------------------------------------------------------------------------------------------

    def read_log(self, cluster: str) -> Copy:
        """Read every committed record of the topic by a stock client that shares no code with the mirror."""
        file = self.folder / f"log-{cluster}.npz"
        spec = ReadSpec(bootstrap=self.address(cluster), topic=TOPIC, partitions=self.size.partitions, file=str(file))
        with Helper("bench.recovery.reader", spec, self.folder / "reader.log") as reader:
            reader.hear(PATIENCE_S)
        return read_copy(file)

    def ends(self, cluster: str) -> list[int]:
        """Return the end of each partition of the topic."""
        with KafkaPeek(self.address(cluster)) as peek:
            return peek.end_offsets(TOPIC, self.size.partitions)

    def sizes(self, cluster: str) -> dict[int, list[tuple[int, int, int]]]:
        """Return the batches of each partition of the topic: first offset, records, bytes."""
        with KafkaPeek(self.address(cluster)) as peek:
            return {
                at: [(one.first_offset, one.records, one.wire_bytes) for one in peek.batches(TOPIC, at)]
                for at in range(self.size.partitions)
            }

    def log_bytes(self, cluster: str, topic: str = TOPIC) -> int:
        """Return the bytes of the segments of a topic, as its broker has them on its disk."""
        return sum(
            file.stat().st_size
            for broker in self.clusters[cluster].brokers
            for file in broker.data_folder.glob(f"{topic}-[0-9]*/*.log")
        )

    def all_bytes(self, cluster: str) -> int:
        """Return the bytes of the segments of all topics."""
        return self.log_bytes(cluster, "*")

    def close(self) -> None:
        """End load and group, whatever they do."""
        self._stack.close()

    @property
    def fence_command(self) -> Path:
        """The command for `raymirror.dr.fence.command`."""
        return self.folder / "fence.sh"

    def _gate(self, cluster: str) -> Path:
        return self.folder / f"gate-{cluster}"

    def _alive(self, cluster: str) -> Path:
        return self.folder / f"alive-{cluster}"

    def _write_fence(self) -> None:
        self.fence_command.write_text(_FENCE.replace("FOLDER", str(self.folder)))
        self.fence_command.chmod(self.fence_command.stat().st_mode | stat.S_IXUSR)


def write_properties(file: Path, properties: dict[str, str]) -> Path:
    """Write a configuration in the words of MM2."""
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
    return file
