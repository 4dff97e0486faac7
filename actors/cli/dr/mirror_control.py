"""Controls the flow of a running mirror for an operation: pauses it, resumes it, stops it, starts its reverse.

A mirror is asked over Ray, by calls that block, so each call has a thread of its own: the operation's lease is renewed
meanwhile.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from actors.cli.common import exits
from actors.cli.common.quiesce import comes_to_rest, until
from actors.local import session
from actors.model.events import FailoverOutcome
from actors.model.requests import MirrorLost
from actors.model.states import Command, Desired
from actors.ray.mirror import Mirror
from engine.base.errors import MirrorError
from engine.core.lane.states import State
from engine.services.dr.switchover.flow_control import WAS_FAILED_OVER
from policies.model import FlowName, TopicPartition

REST_S, STOP_S = 60.0, 25.0
STOPPED = (State.REFUSED.value, State.FAILED.value)
"""States of a lane that does not get on by itself."""
SWITCHED = FailoverOutcome(records=0, groups=0, unequal=0, switched=True)
_T = TypeVar("_T")


class NotAtRestInTime(MirrorError):
    """A paused flow, or the copiers of a stopped one, had not finished in time: flow, what, seconds."""

    exit_code = exits.FAILED

    def __init__(self, flow: str, what: str, seconds: float) -> None:
        super().__init__(flow, what, seconds)
        self.flow, self.what, self.seconds = flow, what, seconds

    def __str__(self) -> str:
        return f"flow {self.flow} was not {self.what} after {self.seconds:.0f} s; see: raymirror lag"


class MirrorControl:
    """The control of a flow of a running mirror. `how`: how an operator starts the reverse flow if it cannot."""

    def __init__(self, mirror: Mirror, place: session.MirrorPlace, flow: FlowName, how: str) -> None:
        self._mirror, self._place, self._flow, self._how = mirror, place, str(flow), how
        self._reverse = str(FlowName(flow.target, flow.source))

    async def is_copying(self) -> bool:
        """See FlowControl."""
        return await _thread(lambda: self._desired(self._flow) is Desired.RUNNING)

    async def stopped_lanes(self) -> Mapping[TopicPartition, str]:
        """See FlowControl."""
        return await _thread(self._stopped_lanes)

    def _stopped_lanes(self) -> dict[TopicPartition, str]:
        lanes = self._mirror.status(lanes=True).lanes
        ours = (one for one in lanes if one.set_id.startswith(f"{self._flow}/"))
        return {one.lane: one.reason or one.state for one in ours if one.state in STOPPED}

    async def pause(self) -> None:
        """See FlowControl."""
        await _thread(self._pause)

    def _pause(self) -> None:
        if self._desired(self._flow) is Desired.STOPPED:
            return
        self._mirror.command(Command.PAUSE, self._flow)
        if not comes_to_rest(self._mirror, self._flow, (), REST_S):
            raise NotAtRestInTime(self._flow, "at rest", REST_S)

    async def pause_moved(self, topics: Sequence[str]) -> None:
        """See FlowControl."""
        await _thread(lambda: self._pause_moved(tuple(topics)))

    def _pause_moved(self, topics: tuple[str, ...]) -> None:
        self._mirror.command(Command.PAUSE_MOVED, self._flow, topics)  # a stopped flow must know of it when it starts
        if self._desired(self._flow) is Desired.STOPPED:
            return
        if not comes_to_rest(self._mirror, self._flow, topics, REST_S):
            raise NotAtRestInTime(self._flow, "at rest", REST_S)

    async def release_moved(self, topics: Sequence[str]) -> None:
        """See FlowControl."""
        await _thread(lambda: self._mirror.command(Command.RELEASE_MOVED, self._flow, tuple(topics)))

    async def resume(self) -> str:
        """See FlowControl."""
        return await _thread(self._resume)

    def _resume(self) -> str:
        if self._is_failed_over(self._flow):
            return WAS_FAILED_OVER
        self._mirror.command(Command.RESUME, self._flow)
        return ""

    async def stop(self) -> None:
        """See FlowControl."""
        await _thread(self._stop)

    def _stop(self) -> None:
        if not self._is_failed_over(self._flow):  # a plain stop is not for good
            self._mirror.fail_over(self._flow, SWITCHED)
        if not until(STOP_S, self._is_stopped):
            raise NotAtRestInTime(self._flow, "stopped", STOP_S)

    def _is_stopped(self) -> bool:
        """Whether no copier of the flow is left, and the target knows that it is stopped."""
        try:
            status = self._mirror.status()
        except MirrorLost as lost:
            return lost.has_ended
        gone = all(copier.flow != self._flow for copier in status.copiers)
        return status.phase == "stopped" or (gone and self._flow not in status.unremembered)

    async def start_reverse(self) -> str:
        """See FlowControl."""
        return await _thread(self._start_reverse)

    def _start_reverse(self) -> str:
        try:
            wanted = self._desired(self._reverse)
            if wanted is None:
                return self._how
            if wanted is Desired.STOPPED and self._is_failed_over(self._reverse):
                self._mirror.command(Command.FORGET, self._reverse)
            if moved := self._moved(self._reverse):
                self._mirror.command(Command.RELEASE_MOVED, self._reverse, moved)  # producers are back now
            if wanted is not Desired.RUNNING:
                self._mirror.command(Command.RESUME, self._reverse)
        except MirrorLost as lost:
            if not lost.has_ended:
                raise
            return self._how
        return ""

    def _is_failed_over(self, flow: str) -> bool:
        return any(one.flow == flow and one.failed_over for one in self._mirror.status().flows)

    def _moved(self, flow: str) -> tuple[str, ...]:
        return next((one.moved_topics for one in self._mirror.status().flows if one.flow == flow), ())

    def _desired(self, flow: str) -> Desired | None:
        return next((one.desired for one in self._mirror.status().flows if one.flow == flow), None)


async def _thread(work: Callable[[], _T]) -> _T:
    return await asyncio.to_thread(work)


def how_to_reverse(path: Path, flow: FlowName, *, is_enabled: bool, written: Path | None = None) -> str:
    """Say how an operator starts the reverse flow; `written`: the file for that, if this command has written it."""
    back = FlowName(flow.target, flow.source)
    if is_enabled:
        return f"start its mirror: raymirror run {path}"
    if written is not None:
        return f"start its mirror: raymirror run {written}"
    return (
        f"enable {back} instead of {flow} ({path} with both settings turned; --reverse-config FILE writes that), then:"
        " raymirror run FILE"
    )
