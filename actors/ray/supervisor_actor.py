"""The supervisor actor: a thin shell around `actors.control.supervisor.Supervisor`, on one event loop.

A task that fails ends no process, and Ray starts again only processes that have ended. So where the rounds fail, this
one ends itself a moment later, and the next leads the copiers on.
"""

import asyncio
import os
from collections.abc import Callable

import msgspec
import ray

from actors.config import config_ref
from actors.config.difference import ADDED, ConfigDifference, ConfigSide, difference
from actors.config.effective import spark_part
from actors.control.control_spans import ControlSpan
from actors.control.identity import Durations
from actors.control.plan import plan_sets
from actors.control.supervisor import Supervisor
from actors.local_socket.server import LocalServer, open_if_possible
from actors.logging.logs import log_sentence, setup_logging
from actors.model.events import FailoverOutcome
from actors.model.messages import ConfigRef, MirrorSpec
from actors.model.needs import memory_of
from actors.model.states import Command, Replaced
from actors.model.status import EventLine, MirrorStatus, encode_status
from actors.ray.fleet import HEAD, RayFleet
from actors.ray.kept_spec import forget_spec, keep_spec, kept_spec
from actors.ray.ray_metadata import RayMetadata
from actors.ray.reload import (
    CannotReload,
    ReloadBusy,
    ReloadFailed,
    flow_plans,
    identity_of,
    read_side,
    reloaded,
    successor,
)
from actors.spark.hosts import RayHosts
from actors.spark.proofs import Proofs
from actors.spark.service import SparkService
from actors.spark.standing_jobs import kept_jobs
from actors.telemetry.exporter import Exporter
from actors.telemetry.tracing import NoTracing, Tracing, open_tracing
from engine.base.clock import now_s, wall_ms
from engine.base.errors import MirrorError
from engine.base.tasks import first_cause, join
from engine.config.settings import MirrorConfig

STEP_S = 1.0
CONFIG_LOOK_S = 10.0
"""Between two looks whether the configuration file was edited."""
END_S, END_AGAIN_S = 0.5, 5.0
"""From a failure to the end of the process: whoever asked hears of it. Longer for one that had not lived for long."""
LIVED_S = 30.0
FAILED = 1
REMEMBER_S = 8.0
"""How long a command waits until what is wanted is written down; less than commands wait for their answer."""
SPARK_END_S = 5.0
"""How long Spark may take to end in order; it is killed then, and nothing is lost by that."""
FOLLOWS_S = 5.0
"""Who has asked within this time follows the mirror; it asks once a second."""


class SupervisorActor:
    """The one supervisor of a mirror: named, detached, restarted by Ray."""

    def __init__(self, spec: bytes, end: Callable[[int], object] = os._exit) -> None:
        self._spec = msgspec.msgpack.decode(kept_spec() or spec, type=MirrorSpec)
        self._logs = setup_logging(self._spec.namespace, "supervisor")
        self._nudge = asyncio.Event()
        self._supervisor: Supervisor | None = None
        self._begun = asyncio.Event()
        self._followers: dict[str, float] = {}
        self._handed_over = False
        self._exporter: Exporter | None = None
        self._metadata: RayMetadata | None = None
        self._spark: SparkService | None = None
        self._local: LocalServer | None = None
        self._tracing: Tracing = NoTracing()
        self._began_s = now_s()
        self._config: MirrorConfig | None = None
        self._fleet: RayFleet | None = None
        self._group: asyncio.TaskGroup | None = None
        self._helpers: dict[str, asyncio.Task[None]] = {}
        self._reloading = asyncio.Lock()
        self._end = end
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._ended)

    async def _run(self) -> None:
        try:
            config = self._config = config_ref.load(self._spec.config)
            async with asyncio.TaskGroup() as group:
                self._group = group
                flows = tuple(flow.name for flow in config.flows)
                metadata = RayMetadata(self._spec, flows, HEAD, self._nudge.set)
                memory = {flow.name: memory_of(flow) for flow in config.flows}
                fleet = RayFleet(self._spec, memory, group, self._nudge)
                spark = self._open_spark(config)
                self._supervisor = self._make(config, fleet, metadata, spark)
                self._metadata, self._fleet = metadata, fleet
                self._helpers["metadata"] = group.create_task(metadata.run())
                self._helpers["file"] = group.create_task(self._watch_config(self._supervisor))
                self._open_telemetry(config)
                self._local = open_if_possible(self._spec.namespace, self._spec.instance_id, self)
                if self._local is not None:
                    self._helpers["socket"] = group.create_task(self._local.run())
                self._begun.set()
                try:
                    await self._rounds(self._supervisor)
                    await metadata.settle()
                    if self._spark is not None:
                        await self._spark.close(SPARK_END_S)
                    await self._forget_kept()
                finally:
                    for helper in self._helpers.values():
                        helper.cancel()
                    if self._local is not None:
                        self._local.close()  # a helper that had not begun closes nothing
                    fleet.leave()
        finally:
            self._tracing.close()
            self._begun.set()  # also when it failed: callers then get the error instead of waiting

    def _open_spark(self, config: MirrorConfig) -> SparkService:
        hosts = RayHosts(self._spec, config)
        spark = self._spark = SparkService(hosts, on=config.spark.on, namespace=self._spec.namespace, clock_s=now_s)
        for job in kept_jobs(config):
            spark.keep(job.name, job.job, job.options)
        self._helpers["spark"] = self._running.create_task(spark.run())
        return spark

    def _open_telemetry(self, config: MirrorConfig) -> None:
        self._tracing = open_tracing(config.telemetry, mirror=self._spec.namespace, version=self._spec.version)
        self._exporter = Exporter(config.telemetry, look=self._look, tell=log_sentence)
        self._helpers["exporter"] = self._running.create_task(self._exporter.run())

    @property
    def _running(self) -> asyncio.TaskGroup:
        if self._group is None:
            raise RuntimeError("the supervisor has not begun")  # a bug
        return self._group

    async def _forget_kept(self) -> None:
        """Nobody begins with what a reload kept once the mirror has ended; who takes over has an own specification."""
        if not self._handed_over:
            await asyncio.to_thread(forget_spec)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Close the logs; where the rounds failed and another process may do better, end this one."""
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            cause = first_cause(failure)
            ends = self._may_do_better(cause)
            then = "Ray starts it again" if ends else "nobody leads from here any more"
            log_sentence("error", f"the supervisor failed: {type(cause).__name__}: {cause}; {then}")
            if ends:
                wait_s = END_S if now_s() - self._began_s > LIVED_S else END_AGAIN_S
                asyncio.get_running_loop().call_later(wait_s, self._end, FAILED)
        self._logs.close()

    def _may_do_better(self, cause: BaseException) -> bool:
        """Whether Ray is to start it again. A mirror that could not even begin is for whoever starts it to mend."""
        if isinstance(cause, Replaced):
            return False
        return self._supervisor is not None or not isinstance(cause, MirrorError) or _was_restarted()

    async def _watch_config(self, supervisor: Supervisor) -> None:
        while True:
            ref = self._spec.config
            edited = await asyncio.to_thread(config_ref.is_edited, ref)
            if ref is self._spec.config:  # a reload may have come meanwhile
                supervisor.see_edited(edited=edited)
            await asyncio.sleep(CONFIG_LOOK_S)

    async def _rounds(self, supervisor: Supervisor) -> None:
        while not supervisor.is_drained and not self._handed_over:
            with self._tracing.span("supervisor step", term=supervisor.term):
                supervisor.step()
            if self._exporter is not None:
                self._exporter.beat()
            try:
                async with asyncio.timeout(STEP_S):
                    await self._nudge.wait()
            except TimeoutError:
                continue
            self._nudge.clear()

    def _count(self, line: EventLine) -> None:
        if self._exporter is not None:
            self._exporter.count(line)

    def _look(self) -> MirrorStatus:
        if self._supervisor is None:
            raise RuntimeError("nobody looks before the supervisor has begun")
        return self._supervisor.status(lanes=True)

    def _make(self, config: MirrorConfig, fleet: RayFleet, metadata: RayMetadata, spark: SparkService) -> Supervisor:
        return Supervisor(
            identity_of(self._spec),
            flow_plans(self._spec, config),
            fleet=fleet,
            metadata=metadata,
            plan=plan_sets,
            clock_s=now_s,
            wall_ms=wall_ms,
            options=Durations(drain_s=self._spec.drain_s),
            spark=spark,
            proofs=_proofs(config, spark),
            heard=self._count,
            done=self._trace,
        )

    def _trace(self, span: ControlSpan) -> None:
        known = {"flow": str(span.flow), "about": span.about, "giver": span.giver, "taker": span.taker}
        filled = {name: text for name, text in known.items() if text}
        self._tracing.record(span.name, span.ended_s - span.began_s, **filled)

    async def _ready(self) -> Supervisor:
        """Give the supervisor; raises what ended its rounds, so that no caller waits for a dead loop."""
        await self._begun.wait()
        if self._task.done():
            await join(self._task)
        if self._supervisor is None:
            raise RuntimeError("the supervisor has begun without a supervisor")  # a bug, not an operator's fault
        return self._supervisor

    async def status(self, lanes: bool = False, follower: str = "") -> bytes:
        """Give a MirrorStatus; whoever asks under a name is known to follow the mirror."""
        if follower:
            self._followers[follower] = now_s()
        status = (await self._ready()).status(lanes=lanes)
        if status.phase == "stopped" and not self._task.done():
            status = msgspec.structs.replace(status, phase="draining")  # the flows are not given back yet
        return encode_status(self._completed(status))

    async def command(self, command: str, flow: str | None, topics: tuple[str, ...]) -> bytes:
        """Carry a command out in the next step, which begins now; give the status once it is remembered, or a while
        later with the flows of which it is not.
        """
        supervisor = await self._ready()
        supervisor.command(Command(command), flow, topics)
        await self._remembered()
        return encode_status(self._completed(supervisor.status()))

    async def _remembered(self) -> None:
        """Have a step at once, and wait a while until what is wanted is written down."""
        self._nudge.set()
        if self._metadata is not None:
            await self._metadata.wait_written(REMEMBER_S)

    def _completed(self, status: MirrorStatus) -> MirrorStatus:
        """Add what the supervisor itself does not know."""
        owed = self._metadata.owed if self._metadata is not None else ()
        local = str(self._local.path) if self._local is not None else ""
        return msgspec.structs.replace(status, unremembered=tuple(map(str, owed)), socket=local)

    async def fail_over(self, flow: str, outcome: bytes) -> None:
        """Stop one flow, and tell what its failover left (an `actors.model.events.FailoverOutcome`)."""
        (await self._ready()).fail_over(flow, msgspec.msgpack.decode(outcome, type=FailoverOutcome))
        await self._remembered()

    async def drain(self) -> None:
        """End in order; the desired state stays as it is."""
        (await self._ready()).drain()
        self._nudge.set()

    async def leave(self, follower: str) -> bool:
        """Drain, unless somebody else follows the mirror or it is detached; say whether it drains."""
        self._followers.pop(follower, None)
        if self._spec.detached or any(now_s() - at_s < FOLLOWS_S for at_s in self._followers.values()):
            return False
        await self.drain()
        return True

    async def compare(self, config: bytes) -> bytes:
        """Say what a ConfigRef would change: a Difference. Raises CannotReload, ConfigMissing, ConfigError."""
        await self._ready()
        side = await asyncio.to_thread(read_side, msgspec.msgpack.decode(config, type=ConfigRef))
        return msgspec.msgpack.encode(difference(self._side(), side))

    async def reload(self, config: bytes, running: str) -> bytes:
        """Take the configuration of a ConfigRef over, if `running` (a file's sha256) is what is replaced; give the
        Difference. Raises CannotReload, ReloadBusy, ConfigMissing, ConfigError: nothing was changed then; ReloadFailed.
        """
        supervisor = await self._ready()
        async with self._reloading:
            if supervisor.is_reloading:
                raise ReloadBusy("a flow that an earlier reload removed is still being drained")
            if running != self._spec.config.digest:
                raise ReloadBusy("another reload has come first, so the difference is another one")
            if supervisor.is_ending:
                raise ReloadBusy("the mirror is ending")
            ref = msgspec.msgpack.decode(config, type=ConfigRef)
            side = await asyncio.to_thread(read_side, ref)
            found = difference(self._side(), side)
            if found.refused:
                raise CannotReload(found.refused)
            spec = successor(self._spec, ref, found.named(ADDED), wall_ms())
            try:
                await self._take_over(supervisor, spec, side, found)
            except Exception as failure:
                cause = f"{type(failure).__name__}: {failure}"
                log_sentence("error", f"the supervisor failed in a reload: {cause}; Ray starts it again")
                asyncio.get_running_loop().call_later(END_S, self._end, FAILED)
                raise ReloadFailed(cause) from failure
            return msgspec.msgpack.encode(found)

    def _side(self) -> ConfigSide:
        if self._config is None:
            raise RuntimeError("the supervisor has begun without a configuration")  # a bug
        return ConfigSide(self._config, self._spec.config.kept, self._spec.config.digest)

    async def _take_over(
        self, supervisor: Supervisor, spec: MirrorSpec, side: ConfigSide, found: ConfigDifference
    ) -> None:
        """Keep the new specification, then have every part follow it; whatever fails here ends the process."""
        if self._metadata is None or self._fleet is None or self._config is None:
            raise RuntimeError("the supervisor has begun without its parts")  # a bug
        await asyncio.to_thread(keep_spec, msgspec.msgpack.encode(spec))
        config, before = side.config, self._config
        names = tuple(flow.name for flow in config.flows)
        self._spec, self._config = spec, config
        self._fleet.reload(spec, {flow.name: memory_of(flow) for flow in config.flows})
        self._metadata.reload(spec, names)
        known = [*names, *(flow.name for flow in before.flows)]
        supervisor.reconfigure(identity_of(spec), flow_plans(spec, config), reloaded(found, spec.config.path, known))
        if spark_part(before) != spark_part(config):
            await self._reopen_spark(supervisor, config)
        if before.telemetry != config.telemetry:
            await self._leave_helper("exporter")  # its port is free for the next one
            self._tracing.close()
            self._open_telemetry(config)
        self._nudge.set()

    async def _reopen_spark(self, supervisor: Supervisor, config: MirrorConfig) -> None:
        if self._spark is not None:
            await self._spark.close(SPARK_END_S)
        await self._leave_helper("spark")
        spark = self._open_spark(config)
        supervisor.hear(spark, _proofs(config, spark))

    async def _leave_helper(self, name: str) -> None:
        task = self._helpers.pop(name)
        task.cancel()
        await asyncio.wait([task])

    async def restart(self, flow: str) -> None:
        (await self._ready()).restart(flow)
        self._nudge.set()

    async def clear_node(self, node: str) -> int:
        """Replace the copiers of a node elsewhere; say how many are there still."""
        left = (await self._ready()).clear_node(node)
        (await self._spark_ready()).clear_node(node)
        self._nudge.set()
        return left

    async def submit_job(self, job: str, options: bytes) -> str:
        """Have a Spark job run; give its id. Raises SparkOff, UnknownJob."""
        return (await self._spark_ready()).submit(job, options)

    async def job(self, job_id: str) -> bytes:
        """Tell of a Spark job: a JobLine. Raises UnknownJobId."""
        return msgspec.msgpack.encode((await self._spark_ready()).line(job_id))

    async def job_report(self, job_id: str) -> bytes | None:
        """Give what a Spark job reported, None while it has not. Raises UnknownJobId."""
        return (await self._spark_ready()).report(job_id)

    async def cancel_job(self, job_id: str) -> None:
        """Have a Spark job end soon. Raises UnknownJobId."""
        (await self._spark_ready()).cancel(job_id)

    async def _spark_ready(self) -> SparkService:
        await self._ready()
        if self._spark is None:
            raise RuntimeError("the supervisor has begun without a keeper of Spark")  # a bug
        return self._spark

    async def hand_over(self) -> None:
        """Give no orders any more: another supervisor takes the copiers over."""
        self._handed_over = True
        self._nudge.set()


def _proofs(config: MirrorConfig, spark: SparkService) -> Proofs:
    return Proofs((flow.name for flow in config.flows if config.proof.on), spark.report)


def _was_restarted() -> bool:
    return ray.is_initialized() and bool(ray.get_runtime_context().was_current_actor_reconstructed)
