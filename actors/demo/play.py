"""Runs the demo from start to end. Main thread only, because of Ray and signals."""

import asyncio
import time

import msgspec

from actors.config.checks import prepare
from actors.demo.load import BACKLOG, LIVE, TOPICS, Load
from actors.demo.outcome import DemoOutcome
from actors.demo.proof import Proof
from actors.demo.spark_choice import why_without_spark
from actors.demo.spark_part import Ends, SparkOutcome, SparkPart
from actors.demo.stage import FLOW, DemoStage, raise_on_signals
from actors.demo.topics import LATE_TOPIC, create_topics, end_offsets, write_late_topic
from actors.jobs.remote_spark import RemoteSpark
from actors.local.session import short_name
from actors.model.status import MirrorStatus
from actors.observability.view import View
from actors.ray import launch
from actors.ray.follow import DRAIN_MARGIN_S
from actors.ray.mirror import Mirror
from engine.base.clock import wall_ms
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


def play(stage: DemoStage, view: View, *, spark: bool) -> DemoOutcome:
    """Run the demo; `spark`: with Spark, if there is room for it.

    Raises ClusterError, LoadFailed, DemoFailed, MirrorError, LookupError, KeyboardInterrupt.
    """
    raise_on_signals()
    left_out = why_without_spark(wanted=spark)
    if left_out:
        stage.say(f"without Spark: {left_out}")
    load = _start_load(stage)
    proof = Proof()
    stage.stack.callback(proof.close)
    began_ms = wall_ms()
    mirror = _start_mirror(stage, spark=not left_out)
    began_at = time.monotonic()
    _write_while_it_copies(stage, load, proof, mirror, view)
    ends = asyncio.run(end_offsets(stage.source.bootstrap_servers, ALL_TOPICS))
    status = _wait_copied(mirror, view, ends)
    copy_s = time.monotonic() - began_at
    shown = SparkOutcome(left_out=left_out)
    if not left_out:
        stage.say("everything is copied; Spark proves it, while the mirror runs")
        shown = _spark_part(stage, mirror, view, began_ms).show(ends)
    mirror.drain()
    if not mirror.wait_stopped(launch.DRAIN_S + DRAIN_MARGIN_S):
        raise DemoFailed("the mirror did not drain")
    stage.say("a stock client proves it too: it reads every record on both sides")
    proof_at = time.monotonic()
    names = {topic: f"{FLOW.source}.{topic}" for topic in ALL_TOPICS}
    verdicts = proof.run(stage.source.bootstrap_servers, stage.target.bootstrap_servers, names)
    return DemoOutcome(
        verdicts=tuple(verdicts),
        wire_bytes=sum(flow.wire_bytes for flow in status.flows),
        copy_s=copy_s,
        proof_s=time.monotonic() - proof_at,
        spark=shown,
    )


def _start_load(stage: DemoStage) -> Load:
    """Start the clusters, and let producers fill them."""
    stage.say("starting two clusters of one broker each")
    stage.start_clusters()
    asyncio.run(create_topics(stage.source.bootstrap_servers, TOPICS))
    load = Load(stage.source, stage.folder)
    stage.stack.callback(load.stop)
    backlog = sum(stream.records for stream in BACKLOG)
    stage.say(f"filling {len(TOPICS)} topics, {sum(TOPICS.values())} partitions, with {backlog:,} records")
    load.start(BACKLOG)
    return load


def _write_while_it_copies(stage: DemoStage, load: Load, proof: Proof, mirror: Mirror, view: View) -> None:
    """Wait for the first copied records, then let more producers write, until they have ended."""
    _wait_load(load, mirror, view)
    _wait_copying(mirror, view)
    stage.say(f"the mirror is copying; now {len(LIVE)} more producers write, and a new topic appears")
    load.start(LIVE)
    proof.warm()
    asyncio.run(write_late_topic(stage.source.bootstrap_servers))
    _wait_load(load, mirror, view)
    stage.say("the load has ended; waiting until the mirror has copied every record")


def _start_mirror(stage: DemoStage, *, spark: bool) -> Mirror:
    path = stage.write_config(spark=spark)
    config, _ = prepare(path)
    plan = launch.plan_launch(path, config, address=None, name=f"demo-{stage.folder.name.rpartition('-')[2]}")
    # a Ray of its own, even if RAY_ADDRESS is set: the demo leaves nothing behind
    connection = launch.connect(msgspec.structs.replace(plan, address=""), stage.folder)
    stage.stack.callback(connection.close, keep_logs=True)  # the logs are deleted with the folder
    raise_on_signals()
    stage.say(f"Ray runs{'; Spark starts beside the load' if spark else ''}; its logs are in {connection.logs}")
    return stage.stack.enter_context(launch.launched(connection, plan))


def _spark_part(stage: DemoStage, mirror: Mirror, view: View, began_ms: int) -> SparkPart:
    """Return Spark's part, which shows the mirror while it waits."""

    def pause(seconds: float) -> None:
        view.show(mirror.status())
        time.sleep(seconds)

    prover = RemoteSpark(mirror, short_name(mirror.namespace), pause)
    return SparkPart(FLOW, prover, stage.storage, began_ms, pause)


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


def _wait_copied(mirror: Mirror, view: View, ends: Ends) -> MirrorStatus:
    """Wait until every partition's position is at the source's end, as a stock client read it. Raises DemoFailed."""
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
