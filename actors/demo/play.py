"""Runs the demo from start to end. Main thread only, because of Ray and signals."""

import asyncio
import time

import msgspec

from actors.config.checks import prepare
from actors.demo.digest import PartitionVerdict
from actors.demo.load import BACKLOG, LIVE, TOPICS, Load
from actors.demo.proof import Proof
from actors.demo.stage import FLOW, DemoStage, raise_on_signals
from actors.demo.topics import LATE_TOPIC, create_topics, end_offsets, write_late_topic
from actors.model.status import MirrorStatus
from actors.observability.view import View
from actors.ray import launch
from actors.ray.follow import DRAIN_MARGIN_S
from actors.ray.mirror import Mirror
from engine.base.errors import MirrorError

ALL_TOPICS = (*TOPICS, LATE_TOPIC)
STALL_S = 60.0  # the demo fails after so many seconds without a new copied record, if records are left to copy
POLL_S = 0.5


class DemoFailed(MirrorError):
    """The mirror did not finish its copy."""

    exit_code = 1  # it ran and failed: not bad input

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return self.what


class DemoOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the demo. `copy_s` runs from the mirror's start to lag 0, `proof_s` is the comparison."""

    verdicts: tuple[PartitionVerdict, ...]
    wire_bytes: int
    copy_s: float
    proof_s: float

    @property
    def is_whole(self) -> bool:
        """Whether at least one partition was compared, and all are identical."""
        return bool(self.verdicts) and all(not verdict.difference for verdict in self.verdicts)


def play(stage: DemoStage, view: View) -> DemoOutcome:
    """Run the demo. Raises ClusterError, LoadFailed, DemoFailed, MirrorError, LookupError, KeyboardInterrupt."""
    raise_on_signals()
    stage.say("starting two clusters of one broker each")
    stage.start_clusters()
    asyncio.run(create_topics(stage.source.bootstrap_servers, TOPICS))
    load = Load(stage.source, stage.folder)
    stage.stack.callback(load.stop)
    backlog = sum(stream.records for stream in BACKLOG)
    stage.say(f"filling {len(TOPICS)} topics, {sum(TOPICS.values())} partitions, with {backlog:,} records")
    load.start(BACKLOG)
    proof = Proof()
    stage.stack.callback(proof.close)
    mirror = _start_mirror(stage)
    began_at = time.monotonic()
    _wait_load(load, mirror, view)
    _wait_copying(mirror, view)
    stage.say(f"the mirror is copying; now {len(LIVE)} more producers write, and a new topic appears")
    load.start(LIVE)
    proof.warm()
    asyncio.run(write_late_topic(stage.source.bootstrap_servers))
    _wait_load(load, mirror, view)
    stage.say("the load has ended; waiting until the mirror has copied every record")
    status = _wait_copied(stage, mirror, view)
    copied_at = time.monotonic()
    mirror.drain()
    if not mirror.wait_stopped(launch.DRAIN_S + DRAIN_MARGIN_S):
        raise DemoFailed("the mirror did not drain")
    stage.say("the proof: every record on both sides, read by a stock client")
    proof_at = time.monotonic()
    names = {topic: f"{FLOW[0]}.{topic}" for topic in ALL_TOPICS}
    verdicts = proof.run(stage.source.bootstrap_servers, stage.target.bootstrap_servers, names)
    return DemoOutcome(
        verdicts=tuple(verdicts),
        wire_bytes=sum(flow.wire_bytes for flow in status.flows),
        copy_s=copied_at - began_at,
        proof_s=time.monotonic() - proof_at,
    )


def _start_mirror(stage: DemoStage) -> Mirror:
    path = stage.write_config()
    config, _ = prepare(path)
    plan = launch.plan_launch(path, config, address=None, name=f"demo-{stage.folder.name.rpartition('-')[2]}")
    # a Ray of its own, even if RAY_ADDRESS is set: the demo leaves nothing behind
    connection = launch.connect(msgspec.structs.replace(plan, address=""), stage.folder)
    stage.stack.callback(connection.close, keep_logs=True)  # the logs are deleted with the folder
    raise_on_signals()
    stage.say(f"Ray runs; its logs are in {connection.logs}")
    return stage.stack.enter_context(launch.launched(connection, plan))


def _wait_load(load: Load, mirror: Mirror, view: View) -> None:
    """Show the mirror until the load has ended."""
    while not load.is_done():
        view.show(mirror.status())
        time.sleep(POLL_S)


def _wait_copying(mirror: Mirror, view: View) -> None:
    """Wait for the first copied record. Raises DemoFailed."""
    deadline = time.monotonic() + STALL_S
    while time.monotonic() < deadline:
        status = mirror.status()
        view.show(status)
        if any(flow.records for flow in status.flows):
            return
        time.sleep(POLL_S)
    reasons = "; ".join(flow.waiting_for for flow in mirror.status().flows)
    raise DemoFailed(f"the mirror has copied nothing for {STALL_S:.0f} s after its start; it waits for {reasons}")


def _wait_copied(stage: DemoStage, mirror: Mirror, view: View) -> MirrorStatus:
    """Wait until every partition's position is at the source's end, as a stock client reads it. Raises DemoFailed."""
    ends = asyncio.run(end_offsets(stage.source.bootstrap_servers, ALL_TOPICS))
    before, moved_at = None, time.monotonic()
    while True:
        status = mirror.status(lanes=True)
        view.show(status)
        at = {(lane.lane.topic, lane.lane.partition): lane.source_next for lane in status.lanes}
        missing = sum(max(0, end - max(0, at.get(place, 0))) for place, end in ends.items())
        if missing == 0:
            return status
        if missing != before:
            before, moved_at = missing, time.monotonic()
        if time.monotonic() - moved_at > STALL_S:
            raise DemoFailed(f"the mirror has copied nothing for {STALL_S:.0f} s, {missing:,} offsets before the end")
        time.sleep(POLL_S)
