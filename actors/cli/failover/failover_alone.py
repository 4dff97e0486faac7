"""Fails over a flow that no mirror copies, from what its target holds; the command owns the flow for that time.

read positions -> take the flow -> read them again -> judge -> hold the groups -> "stopped", with an event -> give back
"""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from actors.cli.common import exits
from actors.cli.common.steps import StartSteps
from actors.cli.failover.draining import DrainBudget
from actors.cli.failover.failover_outcome import Result, outcome_of, renames
from actors.cli.failover.failover_stored import judged_by_positions
from actors.cli.failover.open_operation import only_failover
from actors.cli.failover.owning import holder_of, known_dead
from actors.cli.failover.step_times import ALONE, FailoverStep, StepTimes
from actors.config.config_ref import digest_of
from actors.local import session
from actors.model.events import KINDS, FailedOver
from actors.ray.launch import usual_name
from engine.base.clock import wall_ms
from engine.base.errors import MirrorError
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.events.events import Event
from engine.core.reports.drain import undrained
from engine.core.reports.rpo import rpo_of
from engine.flow.ports.state_options import StateOptions
from engine.flow.topic_logs.last_known import NO_MIRROR, NothingKnown
from engine.services.dr.failover import Failover
from engine.services.event_service import EventService
from engine.services.holding import held
from engine.services.state_service import StateService
from engine.state.state import (
    DESIRED,
    Deployment,
    DesiredState,
    Key,
    StateHolder,
    Value,
    desired_of,
    owner_of,
)

EVENT_S = 10.0
"""Seconds to write the event of the failover; it is not worth a longer wait."""


class NotFinished(MirrorError):
    """A failover without a mirror failed after it had taken the flow."""

    exit_code = exits.FAILED

    def __init__(self, flow: str, why: str) -> None:
        super().__init__(flow, why)
        self.flow, self.why = flow, why

    def __str__(self) -> str:
        return (
            f"{self.why}; the failover of {self.flow} is not finished: some groups may be committed on the target"
            " already, and the flow is not marked as stopped; run the failover again"
        )


async def fail_over_alone(
    config: MirrorConfig,
    flow: FlowConfig,
    *,
    why: str,
    mirror: str | None,
    timeout_s: float,
    commit: bool,
    tombstones_ms: int,
    despite_operation: bool = False,
) -> Result:
    """Judge, hold the groups and stop the flow. `why` no mirror takes part; `mirror`: the name that one would have.
    `tombstones_ms`: for how long compacted copies are to keep tombstones; 0: as before.

    `despite_operation`: also while an operation of the flow or its reverse is open.

    Raises NothingKnown, OperationOpen, OperationHeld, FlowHeld, BrokerUnreachable, KafkaRefusal before anything is
    written; NotFinished after that.
    """
    name = session.namespace_of(mirror or usual_name(config))
    times = StepTimes(ALONE, StartSteps(quiet=False, out=sys.stderr))
    async with AsyncExitStack() as stack:
        with times.of(FailoverStep.CONNECT):
            asked = await stack.enter_async_context(Failover(config, flow))
        before = owner_of(await asked.state())
        if not (await asked.stored()).ours:
            raise NothingKnown(str(flow.name), flow.positions_topic, flow.name.target)
        async with AsyncExitStack() as owned:
            holder = holder_of(config, name, "failover")
            with times.of(FailoverStep.TAKE):
                only = only_failover(asked, str(flow.name), holder, despite=despite_operation)
                await owned.enter_async_context(only)
                _say_waits(flow, before)
                service = await owned.enter_async_context(_held(config, flow, holder, name))
            budget = DrainBudget(timeout_s)
            with times.of(FailoverStep.JUDGE):
                found = await judged_by_positions(asked, flow, await asked.stored(), NO_MIRROR)
            with times.of(FailoverStep.GROUPS):
                standing = await asked.hold(
                    budget.left_s,
                    commit=commit,
                    undrained=undrained(found.partitions),
                    gone=found.ends.gone,
                    say=times.say,
                )
            with times.of(FailoverStep.TOMBSTONES):
                left_out = await asked.known_left_out()
                raised = await asked.keep_tombstones(found.copies, tombstones_ms)
                lifted = await asked.lift_fences()
            with times.of(FailoverStep.STOP):
                await service.put({DESIRED: _stopped(service.load())})
                outcome = outcome_of(
                    found.partitions,
                    standing,
                    raised,
                    is_whole=found.is_whole,
                    renamed=renames(flow),
                    left_out=left_out.records,
                )
                event = FailedOver(flow=flow.name, outcome=outcome, mirror_goes_on=False)
                unsaid = await _write_down(config, flow, event)
    return Result(
        flow=str(flow.name),
        source=found.ends.gone,
        partitions=found.partitions,
        rpo=rpo_of(found.lanes, found.ends.ends, wall_ms()),
        standing=standing,
        stopped=True,
        without_mirror=why,
        mirror_seen_ms=before.at_ms if before is not None else -1,
        unread=found.unread,
        event_unsaid=unsaid,
        tombstones=raised,
        fences=lifted,
        left_out=left_out,
        renamed=renames(flow),
        steps=times.done,
        mirror_goes_on=False,
    )


def _say_waits(flow: FlowConfig, owner: Deployment | None) -> None:
    if owner is None or owner.released:
        return
    most_s = StateOptions(flow=flow.name, topic="").dead_after_s
    print(
        f"raymirror failover: {owner} has not given the flow back; waiting up to {most_s:.0f} s for a sign of life of"
        " that owner",
        file=sys.stderr,
    )


def note_here(path: Path, flow: str) -> None:
    """Add the failover of a flow to the end notes of this machine's ended mirrors that had this configuration file.

    Commands that find no mirror print its end note; after a failover they must not advise to start it again.
    """
    try:
        session.note_failover(flow, str(session.absolute(path)), digest_of(path.read_bytes()), os.environ)
    except OSError as error:
        folder = session.folder(os.environ)
        print(f"raymirror failover: cannot note in {folder} that {flow} was failed over: {error}", file=sys.stderr)


def _stopped(entries: Mapping[Key, Value]) -> DesiredState:
    """Return the wanted state after a failover: stopped, and no later `run` copies again without a confirmation."""
    return msgspec.structs.replace(
        desired_of(entries).in_state("stopped", stop="failover"),
        who=f"raymirror failover on {socket.gethostname()}",
        at_ms=wall_ms(),
    )


async def _write_down(config: MirrorConfig, flow: FlowConfig, event: Event) -> str:
    """Append an event to the flow's topic; return why it is not written, empty if it is."""
    service = EventService(config, flow, KINDS)
    service.append([event])
    try:
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(service.run())
            try:
                async with asyncio.timeout(EVENT_S):
                    await service.flush()
            except TimeoutError:
                return service.trouble or f"no answer within {EVENT_S:.0f} s"
            finally:
                writing.cancel()
    finally:
        await service.close()
    return service.trouble if service.dropped else ""


@asynccontextmanager
async def _held(
    config: MirrorConfig, flow: FlowConfig, holder: StateHolder, mirror: str
) -> AsyncIterator[StateService]:
    """Own the flow while the block runs; an error or an interrupt in the block is reported as NotFinished.

    Raises what `held` raises before this command owns the flow, then NotFinished.
    """
    is_ours = False
    try:
        async with held(config, flow, holder, known_dead(mirror)) as service:
            is_ours = True
            yield service
    except MirrorError as failure:
        if not is_ours:
            raise
        raise NotFinished(str(flow.name), str(failure)) from failure
    except asyncio.CancelledError:
        if is_ours:
            print(NotFinished(str(flow.name), "interrupted"), file=sys.stderr)
        raise
