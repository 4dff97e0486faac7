"""The supervisor actor: a thin shell around `actors.control.supervisor.Supervisor`, on one event loop.

A task that fails does not end its process, and Ray restarts only processes that have ended. So when the rounds fail,
this process ends itself a moment later, and the next supervisor continues to lead the copiers.
"""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import ray

from actors.config import config_ref
from actors.config.config_ref import ConfigMissing, digest_of
from actors.config.difference import ADDED, ConfigDifference, ConfigSide, difference
from actors.config.file_change import present_file, replace_file, take_back, with_changes, with_flow
from actors.config.file_watch import LOOK_S, FileFollower, ReloadOutcome, apply_file
from actors.config.reload_errors import CannotReload, ReloadBusy, ReloadFailed
from actors.config.settings_change import CannotChange, ChangedFile
from actors.local_socket.server import open_if_possible
from actors.logging.logs import log_sentence, setup_logging
from actors.model.events import FailoverOutcome
from actors.model.messages import AlteredOffset, ConfigRef, MirrorSpec
from actors.model.states import Command, Replaced, UnknownFlow
from actors.model.status import MirrorStatus, encode_status
from actors.ray.kept_spec import forget_spec, keep_spec, kept_spec
from actors.ray.mirror_parts import MirrorParts
from actors.ray.reload import read_side, successor, why_no_room
from engine.base.clock import now_s, wall_ms
from engine.base.errors import ConfigError, MirrorError
from engine.base.redaction import redacted
from engine.base.tasks import first_cause, join
from policies.model import FlowName
from policies.roles import Role

STEP_S = 1.0
CONFIG_LOOK_S = 10.0
"""Seconds between two checks whether the configuration file was edited."""
END_S, END_AGAIN_S = 0.5, 5.0
"""Seconds from a failure to the end of the process, so that callers get the error. END_AGAIN_S: if it failed early."""
LIVED_S = 30.0
FAILED = 1
REMEMBER_S = 8.0
"""Seconds that a command waits until the wanted state is stored; less than commands wait for their answer."""
FOLLOWS_S = 5.0
"""A process that asked for the status within these seconds follows the mirror; followers ask once a second."""


class SupervisorActor:
    """The one supervisor of a mirror: named, detached, restarted by Ray."""

    def __init__(self, spec: bytes, end: Callable[[int], object] = os._exit) -> None:
        self._spec = msgspec.msgpack.decode(kept_spec() or spec, type=MirrorSpec)
        self._logs = setup_logging(self._spec.namespace, "supervisor")
        self._nudge = asyncio.Event()
        self._parts: MirrorParts | None = None
        self._begun = asyncio.Event()
        self._followers: dict[str, float] = {}
        self._handed_over = False
        self._began_s = now_s()
        self._reloading = asyncio.Lock()
        self._changing_file = asyncio.Lock()
        self._end = end
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._ended)

    async def _run(self) -> None:
        try:
            config = config_ref.load(self._spec.config)
            async with asyncio.TaskGroup() as group:
                parts = self._parts = MirrorParts(self._spec, config, group, self._nudge)
                parts.begin("file", self._watch_config(parts))
                server = open_if_possible(self._spec.namespace, self._spec.instance_id, self)
                if server is not None:
                    parts.serve(server)
                parts.serve_http(self._spec, self)
                self._begun.set()
                try:
                    await self._rounds(parts)
                    await parts.settle()
                    if not self._handed_over:  # the next supervisor has a specification of its own
                        await asyncio.to_thread(forget_spec)
                finally:
                    parts.leave()
        finally:
            if self._parts is not None:
                self._parts.close()
            self._begun.set()  # also when it failed: callers then get the error instead of waiting

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Close the logs; if the rounds failed and a restart may help, end this process."""
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            cause = first_cause(failure)
            ends = self._may_do_better(cause)
            then = "Ray restarts it" if ends else "Ray does not restart it"
            log_sentence("error", f"the supervisor failed: {type(cause).__name__}: {cause}; {then}")
            if ends:
                wait_s = END_S if now_s() - self._began_s > LIVED_S else END_AGAIN_S
                asyncio.get_running_loop().call_later(wait_s, self._end, FAILED)
        self._logs.close()

    def _may_do_better(self, cause: BaseException) -> bool:
        """Whether Ray should restart it. If a first start failed, the operator must fix the cause."""
        if isinstance(cause, Replaced):
            return False
        return self._parts is not None or not isinstance(cause, MirrorError) or _was_restarted()

    async def _watch_config(self, parts: MirrorParts) -> None:
        follower = FileFollower(self._apply_file, parts.supervisor.see_refused)
        while True:
            ref = self._spec.config
            if parts.config.is_watched:
                await follower.look(ref)
                await asyncio.sleep(LOOK_S)
                continue
            edited = await asyncio.to_thread(config_ref.is_edited, ref)
            if ref is self._spec.config:  # else a reload came during the check
                parts.supervisor.see_edited(edited=edited)
            await asyncio.sleep(CONFIG_LOOK_S)

    def _apply_file(self, path: str) -> ReloadOutcome:
        """Have `raymirror reload` check and apply a file, and wait for its end. Call it in a thread."""
        address = str(ray.get_runtime_context().gcs_address) if ray.is_initialized() else ""
        return apply_file(path, namespace=self._spec.namespace, address=address)

    async def _rounds(self, parts: MirrorParts) -> None:
        supervisor = parts.supervisor
        while not supervisor.is_drained and not self._handed_over:
            with parts.telemetry.step(supervisor.term):
                supervisor.step()
            try:
                async with asyncio.timeout(STEP_S):
                    await self._nudge.wait()
            except TimeoutError:
                continue
            self._nudge.clear()

    async def _ready(self) -> MirrorParts:
        """Return the parts of the running supervisor; raises the error that ended the rounds, if they have ended."""
        await self._begun.wait()
        if self._task.done():
            await join(self._task)
        if self._parts is None:
            raise RuntimeError("the supervisor has started without its parts")  # a bug, not an operator's fault
        return self._parts

    async def status(self, lanes: bool = False, follower: str = "") -> bytes:
        """Return a MirrorStatus; a caller that gives its name (`follower`) counts as following the mirror."""
        if follower:
            self._followers[follower] = now_s()
        parts = await self._ready()
        status = parts.supervisor.status(lanes=lanes)
        parts.note(status)
        if status.phase == "stopped" and not self._task.done():
            status = msgspec.structs.replace(status, phase="draining")  # the flows are not given back yet
        return _encoded(status, parts)

    async def command(self, command: str, flow: str | None, topics: tuple[str, ...]) -> bytes:
        """Carry out a command in the next step, which begins now. Return the status when the command is stored, or
        after REMEMBER_S seconds; then `unremembered` names the flows for which it is not stored.
        """
        parts = await self._ready()
        parts.supervisor.command(Command(command), flow, topics)
        await self._await_written(parts)
        return _encoded(parts.supervisor.status(), parts)

    async def delete_flow(self, flow: str) -> None:
        """Stop a flow, which then has no connector; return when that is stored, or after REMEMBER_S seconds."""
        parts = await self._ready()
        parts.supervisor.delete(flow)
        await self._await_written(parts)

    async def _await_written(self, parts: MirrorParts) -> None:
        """Do a step at once, and wait up to REMEMBER_S seconds until the wanted state is stored."""
        self._nudge.set()
        await parts.metadata.wait_written(REMEMBER_S)

    async def fail_over(self, flow: str, outcome: bytes) -> None:
        """Stop one flow, and report the outcome of its failover (an `actors.model.events.FailoverOutcome`)."""
        parts = await self._ready()
        parts.supervisor.fail_over(flow, msgspec.msgpack.decode(outcome, type=FailoverOutcome))
        await self._await_written(parts)

    async def drain(self) -> None:
        """End in order; the desired state stays as it is."""
        (await self._ready()).supervisor.drain()
        self._nudge.set()

    async def leave(self, follower: str) -> bool:
        """Drain, unless another process follows the mirror or it is detached; return whether it drains."""
        self._followers.pop(follower, None)
        if self._spec.detached or any(now_s() - at_s < FOLLOWS_S for at_s in self._followers.values()):
            return False
        await self.drain()
        return True

    async def compare(self, config: bytes) -> bytes:
        """Return what a ConfigRef would change, a ConfigDifference. Raises CannotReload, ConfigMissing, ConfigError."""
        parts = await self._ready()
        side = await asyncio.to_thread(read_side, msgspec.msgpack.decode(config, type=ConfigRef))
        return msgspec.msgpack.encode(self._difference(parts, side))

    async def reload(self, config: bytes, running: str) -> bytes:
        """Apply the configuration of a ConfigRef, if `running` is the sha256 of the present file; return what changed.

        Raises CannotReload, ReloadBusy, ConfigMissing, ConfigError (nothing was changed), ReloadFailed.
        """
        parts = await self._ready()
        async with self._reloading:
            if parts.supervisor.is_reloading:
                raise ReloadBusy("a flow that an earlier reload removed is still being drained")
            if running != self._spec.config.digest:
                raise ReloadBusy("another reload has come first, so the difference has changed")
            if parts.supervisor.is_ending:
                raise ReloadBusy("the mirror is ending")
            ref = msgspec.msgpack.decode(config, type=ConfigRef)
            side = await asyncio.to_thread(read_side, ref)
            found = self._difference(parts, side)
            if found.refused:
                raise CannotReload(found.refused)
            spec = successor(self._spec, ref, found.named(ADDED), wall_ms())
            try:
                await self._take_over(parts, spec, side, found)
            except Exception as failure:
                cause = f"{type(failure).__name__}: {redacted(str(failure))}"
                log_sentence("error", f"the supervisor failed in a reload: {cause}; Ray restarts it")
                asyncio.get_running_loop().call_later(END_S, self._end, FAILED)
                raise ReloadFailed(cause) from failure
            return msgspec.msgpack.encode(found)

    async def file_plan(self) -> bytes:
        """Return what a reload of the file on disk would change, a ConfigDifference.

        Raises ConfigMissing, ConfigError, CannotReload if it cannot be read.
        """
        parts = await self._ready()
        side = await asyncio.to_thread(_present_side, self._spec.config)
        return msgspec.msgpack.encode(self._difference(parts, side))

    async def apply_present(self, digest: str) -> None:
        """Reload the file on disk, as `raymirror reload` does, if it has this sha256.

        Raises ReloadBusy if it has another one, CannotReload. A caller that goes away does not leave it half done.
        """
        parts = await self._ready()
        await parts.finish(partial(self._apply_present, digest))

    async def _apply_present(self, digest: str) -> None:
        path = self._spec.config.path
        now = await asyncio.to_thread(_present_ref, self._spec.config)
        if now.digest != digest:
            raise ReloadBusy(f"{path} was edited since it was looked at; look at the plan again")
        outcome = await asyncio.to_thread(self._apply_file, path)
        if outcome.code:
            raise CannotReload((outcome.why,))

    def _difference(self, parts: MirrorParts, side: ConfigSide) -> ConfigDifference:
        return difference(ConfigSide(parts.config, self._spec.config.kept, self._spec.config.digest), side)

    async def _take_over(self, parts: MirrorParts, spec: MirrorSpec, side: ConfigSide, found: ConfigDifference) -> None:
        """Store the new specification, then apply it to every part; any failure here ends the process."""
        await asyncio.to_thread(keep_spec, msgspec.msgpack.encode(spec))
        self._spec = spec
        await parts.reload(spec, side.config, found)
        self._nudge.set()

    async def change_settings(self, flow: str, changes: dict[str, str | None]) -> None:
        """Change settings of a flow in the mirror's file, given as those of a connector, and apply the file.

        Raises UnknownFlow, FileFixed, FileEdited, CannotChange, CannotReload, ReloadBusy, ConfigError, ConfigMissing
        (nothing was changed), ReloadFailed. A caller that goes away does not leave it half done.
        """
        parts = await self._ready()
        await parts.finish(partial(self._change_file, parts, partial(with_changes, _flow_named(parts, flow), changes)))

    async def create_flow(self, source: str, target: str, settings: dict[str, str]) -> None:
        """Add a flow between two clusters of the mirror's file, and apply the file; raise as `change_settings`."""
        parts = await self._ready()
        flow = FlowName(source, target)
        await parts.finish(partial(self._change_file, parts, partial(with_flow, flow, settings)))

    async def _change_file(self, parts: MirrorParts, change: Callable[[bytes, str], ChangedFile]) -> None:
        async with self._changing_file:
            ref = self._spec.config
            before = await asyncio.to_thread(present_file, ref)
            changed = await asyncio.to_thread(change, before, ref.path)
            new = ConfigRef(path=ref.path, digest=digest_of(changed.data), kept=changed.plain)
            found = self._difference(parts, ConfigSide(changed.config, new.kept, new.digest))
            added = found.named(ADDED)
            no_room = await asyncio.to_thread(why_no_room, self._spec.namespace, changed.config) if added else ()
            if refused := (*found.refused, *no_room):
                raise CannotReload(refused)
            await asyncio.to_thread(replace_file, Path(ref.path), changed.data)
            try:
                await self.reload(msgspec.msgpack.encode(new), ref.digest)
            except (CannotReload, ReloadBusy, ConfigError, ConfigMissing):  # nothing was applied
                await asyncio.to_thread(take_back, Path(ref.path), before, changed.data)
                raise

    async def console(self, user: str, role: str) -> bytes:
        """Return where the console is, with a one-time token: a ConsoleDoor as msgpack. Raises NoConsole."""
        door = (await self._ready()).console(user, Role(role))
        log_sentence("info", f"{user} has asked for the address of the console, with the role {role}")
        return msgspec.msgpack.encode(door)

    async def restart(self, flow: str) -> None:
        (await self._ready()).supervisor.restart(flow)
        self._nudge.set()

    async def restart_copiers(self, flow: str, copiers: tuple[str, ...]) -> None:
        """Replace some copiers of a flow, and try its quarantined partitions again. Raises UnknownFlow."""
        (await self._ready()).supervisor.restart(flow, copiers)
        self._nudge.set()

    async def positions(self, flow: str) -> bytes:
        """Return how far the partitions of a flow are copied by their positions: StoredOffsets as msgpack.

        Raises UnknownFlow, ActorUnreachable.
        """
        parts = await self._ready()
        return await parts.metadata.positions(_flow_named(parts, flow))

    async def alter_positions(self, flow: str, wanted: tuple[AlteredOffset, ...] | None) -> None:
        """Set positions of a flow that is stopped; None: remove all. No copier of it starts meanwhile.

        Raises UnknownFlow, CannotChange, NotAtRest (nothing was changed), ActorUnreachable. A caller that goes away
        does not end it.
        """
        parts = await self._ready()
        name = _flow_named(parts, flow)
        wants = parts.config.flow(name).selection.wants
        if others := sorted({one.topic for one in wanted or () if not wants(one.topic)}):
            raise CannotChange(tuple(f"topic {topic} is not one that flow {flow} copies" for topic in others))
        await parts.finish(partial(self._alter_positions, parts, name, wanted))

    @staticmethod
    async def _alter_positions(parts: MirrorParts, flow: FlowName, wanted: tuple[AlteredOffset, ...] | None) -> None:
        with parts.supervisor.at_rest(str(flow)):
            await parts.metadata.alter_positions(flow, wanted)

    async def clear_node(self, node: str) -> int:
        """Replace the copiers of a node elsewhere; say how many are there still."""
        parts = await self._ready()
        left = parts.supervisor.clear_node(node)
        parts.spark.clear_node(node)
        self._nudge.set()
        return left

    async def submit_job(self, job: str, options: bytes) -> str:
        """Submit a Spark job; return its id. Raises SparkOff, UnknownJob."""
        return (await self._ready()).spark.submit(job, options)

    async def job(self, job_id: str) -> bytes:
        """Return the JobLine of a Spark job. Raises UnknownJobId."""
        return msgspec.msgpack.encode((await self._ready()).spark.line(job_id))

    async def job_report(self, job_id: str) -> bytes | None:
        """Return the report of a Spark job, None until it has one. Raises UnknownJobId."""
        return (await self._ready()).spark.report(job_id)

    async def cancel_job(self, job_id: str) -> None:
        """Cancel a Spark job. Raises UnknownJobId."""
        (await self._ready()).spark.cancel(job_id)

    async def hand_over(self) -> None:
        """Send no more orders: another supervisor takes the copiers over."""
        self._handed_over = True
        self._nudge.set()


def _present_side(ref: ConfigRef) -> ConfigSide:
    """Read the file of a reference as it is now. Raises ConfigMissing, ConfigError, CannotReload."""
    return read_side(_present_ref(ref))


def _present_ref(ref: ConfigRef) -> ConfigRef:
    """Refer to the file of a reference as it is now. Raises ConfigMissing, ConfigError, CannotReload."""
    try:
        return config_ref.present(ref)
    except OSError as failure:
        raise CannotReload((f"{ref.path} cannot be read: {failure.strerror}",)) from failure


def _flow_named(parts: MirrorParts, name: str) -> FlowName:
    """Return a flow of the running configuration. Raises UnknownFlow."""
    names = {str(one.name): one.name for one in parts.config.flows}
    if name not in names:
        raise UnknownFlow(name, tuple(names))
    return names[name]


def _encoded(status: MirrorStatus, parts: MirrorParts) -> bytes:
    """Pack a status; add the unstored flows and the socket, which the supervisor does not know."""
    unremembered = tuple(map(str, parts.metadata.owed))
    socket = str(parts.local.path) if parts.local is not None else ""
    return encode_status(msgspec.structs.replace(status, unremembered=unremembered, socket=socket))


def _was_restarted() -> bool:
    return ray.is_initialized() and bool(ray.get_runtime_context().was_current_actor_reconstructed)
