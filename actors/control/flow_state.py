"""Bookkeeping of one flow: its copiers, its sets, what is wanted of it. No await, no Ray.

discovery ──> plan ──> ownership table (sets, owners, moves) ──> orders of each copier
                          ^                                         │
                          └────────────── reports ──────────────────┘
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from actors.control.copier_handle import CopierHandle
from actors.control.ownership_table import OwnershipTable
from actors.control.ports import DiscoveryAnswer, RememberedFlow
from actors.control.weights import Weights
from actors.model.states import Command, CopierState, Desired, desired_after
from engine.base.errors import MirrorError
from engine.core.reports.progress import FlowProgress, LaneProgress
from engine.state.state import Quarantine, SetState
from policies.model import FlowName, LaneName, PartitionSet
from policies.placement.assignment import IDLE_LANE, SetPlan, is_closed, too_heavy
from policies.placement.flapping import SetRecord, released, remembered
from policies.placement.scaling import ScalingLimits

# flow, its lanes, the sets so far, how many copiers are to be busy -> the sets from now on
Plan = Callable[
    [FlowName, tuple[LaneName, ...], Mapping[str, tuple[LaneName, ...]], int], Mapping[str, tuple[LaneName, ...]]
]

UNSURE_S = 20.0
"""Copiers get no further lease when a flow was not known to be ours for so long. Another may take it after 30 s
(`engine.flow.ports.state_options`), and a lease that was granted a moment before lasts 6 s.
"""


FIRST_DISCOVERY = "the first discovery of topics"
"""What a flow waits for that knows no topic, where it does not say more."""


class UnknownTopic(MirrorError):
    """A command named a topic that the flow does not copy."""

    def __init__(self, topic: str, flow: str) -> None:
        super().__init__(topic, flow)
        self.topic, self.flow = topic, flow

    def __str__(self) -> str:
        return f"flow {self.flow} copies no topic {self.topic!r}; see: raymirror status"


class TopicsNotKnownYet(MirrorError):
    """A command named a topic while nobody knows which topics a flow copies, and what that waits for."""

    exit_code = 1  # said again later, it may be done

    def __init__(self, topic: str, flow: str, waits_for: str) -> None:
        super().__init__(topic, flow, waits_for)
        self.topic, self.flow, self.waits_for = topic, flow, waits_for

    def __str__(self) -> str:
        return (
            f"which topics flow {self.flow} copies is not known yet, {self.topic!r} may be one of them; nothing was"
            f" changed, ask again later: it waits for {self.waits_for}"
        )


class FlowPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the supervisor needs to know of a flow: its name, how many copiers it may get, what they are made of."""

    name: FlowName
    scaling: ScalingLimits = ScalingLimits()
    fingerprint: str = ""
    started_ms: int = 0
    """When it was asked for, Unix time: what was stopped before that runs again."""


class DesiredFlow(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of one flow. `wake` grows with every resume, so that a resume of a running flow is one too."""

    state: Desired = Desired.RUNNING
    paused_topics: frozenset[str] = frozenset()
    wake: int = 0


def plan_sets(
    flow: FlowName, lanes: tuple[LaneName, ...], known: Mapping[str, tuple[LaneName, ...]], copiers: int
) -> Mapping[str, tuple[LaneName, ...]]:
    """Keep every lane in the set it is in; new ones join the smallest."""
    return SetPlan(sets=dict(known)).with_lanes(flow, lanes, copiers).sets


class FlowState:
    """One flow's bookkeeping; the supervisor decides, and writes down here what came of it."""

    def __init__(self, flow: FlowPlan, plan: Plan) -> None:
        self.flow = flow.name
        self.fingerprint = flow.fingerprint
        self.copiers_wanted = flow.scaling.minimum
        self.is_removed = False
        """Whether the configuration does not have it any more: it is drained, and then forgotten."""
        self.mirror_ends = False
        """Whether the whole mirror ends, so that only a new start of it copies again."""
        self._most = flow.scaling.maximum
        self.wanted = DesiredFlow()
        self.wanted_at_ms = 0
        self.failed_over = False
        """Whether a failover stopped it; a resume ends that. A stop of the whole mirror leaves it as it is."""
        self.stored = RememberedFlow()
        """What Metadata was given to remember, or has read."""
        self.is_state_read = False
        """Whether what the state topic has was read; nothing is placed before."""
        self.handles: dict[str, CopierHandle] = {}
        self.ownership = OwnershipTable()
        self.weights = Weights()
        self.uneven_since_s: float | None = None
        self.records: dict[str, SetRecord] = {}
        """Sets whose copiers have ended; a set that is not here has a clean record."""
        self.found = DiscoveryAnswer(serial=0)
        """What Metadata answered last."""
        self.taken = ""
        """Who else has the flow; once it is known, it stays."""
        self.start_not_before_s = 0.0
        self.quick_deaths = 0
        self.serial = 0
        self._plan = plan
        self._found_lanes: tuple[LaneName, ...] | None = None
        """What the sets were planned from."""
        self._started_ms = flow.started_ms

    def replan(self, flow: FlowPlan) -> None:
        """Take other settings of the same flow: copiers of another fingerprint are replaced, the sets stay."""
        self.fingerprint, self._most = flow.fingerprint, flow.scaling.maximum
        self.copiers_wanted = min(max(self.copiers_wanted, flow.scaling.minimum), flow.scaling.maximum)

    def command(self, command: Command, topics: tuple[str, ...] = ()) -> None:
        """Change what is wanted, of topics that `known_of` gave. Raises IllegalCommand."""
        # a flow that was stopped by itself may go on, for its mirror has not ended
        is_back = command is Command.RESUME and not topics
        state = Desired.RUNNING if is_back else desired_after(self.wanted.state, command)
        wake = self.wanted.wake + (command is Command.RESUME)
        if command is Command.RESUME:
            self.release()
        if not topics:
            self.failed_over = self.failed_over and state is Desired.STOPPED
            # a stop ends the copying and decides nothing about topics: what was paused is so at the next start
            kept = self.wanted.paused_topics if command is Command.STOP else frozenset()
            self.wanted = DesiredFlow(state=state, paused_topics=kept, wake=wake)
            return
        paused = self.wanted.paused_topics
        paused = paused | set(topics) if command is Command.PAUSE else paused - set(topics)
        self.wanted = DesiredFlow(state=self.wanted.state, paused_topics=frozenset(paused), wake=wake)

    def known_of(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        """Give those of the topics that the flow copies, or that are paused in it."""
        known = self.topics() | self.wanted.paused_topics if topics else frozenset()
        return tuple(topic for topic in topics if topic in known)

    def remembered(self, at_ms: int) -> RememberedFlow:
        """Say what is to be remembered at an instant of Unix time."""
        sets = {
            set_id: SetState(lanes=group.lanes, epoch=group.epoch)
            for set_id, group in self.ownership.sets.items()
            if group.lanes and is_closed(set_id)
        }
        before, left_alone = self.stored.quarantine, self.quarantined()
        return RememberedFlow(
            state=self.wanted.state,
            paused_topics=tuple(sorted(self.wanted.paused_topics)),
            at_ms=self.wanted_at_ms,
            sets=sets,
            quarantine={
                set_id: Quarantine(
                    reason=why,
                    since_ms=before[set_id].since_ms if set_id in before else at_ms,
                    failures=self.records[set_id].ends,
                )
                for set_id, why in left_alone.items()
            },
        )

    def apply_discovery(self, found: DiscoveryAnswer, now_s: float) -> Counter[str]:
        """Apply what Metadata found: new lanes join sets, lanes that are gone leave theirs. Name the topics that are
        gone, with the partitions they had. Sets are planned once what is remembered of them was read.
        """
        self.found = found
        self.taken = self.taken or found.taken  # a metadata actor that is new does not know it yet
        if found.kept is not None and not self.is_state_read:
            self.is_state_read = True
            self._recall(found.kept, now_s)
        if found.serial == self.serial or not self.is_known or not self.is_state_read:
            return Counter()
        self.serial = found.serial
        self.ownership.see_epoch(found.highest_epoch)
        if found.lanes == self._found_lanes:
            return Counter()
        if self._found_lanes is None:
            self.ownership.separate()  # of what was adopted
        self._found_lanes = found.lanes
        before = self._partitions()
        plan = self._plan(self.flow, found.lanes, self.ownership.lanes(), self._most)
        self.ownership.reshape(plan, self._pattern)
        filled = {set_id for set_id, group in self.ownership.sets.items() if group.lanes}
        self.records = {set_id: record for set_id, record in self.records.items() if set_id in filled}
        gone = before.keys() - {lane.source.topic for lane in found.lanes}
        return Counter({topic: before[topic] for topic in gone})

    def _partitions(self) -> Counter[str]:
        return Counter(lane.source.topic for group in self.ownership.sets.values() for lane in group.lanes)

    def _recall(self, kept: RememberedFlow, now_s: float) -> None:
        """Go on with what was known before; with what was wanted, unless that is older than the wish to start."""
        self.stored = kept
        for set_id, state in kept.sets.items():
            self.ownership.remember(
                msgspec.structs.replace(self._pattern, set_id=set_id, epoch=state.epoch, lanes=state.lanes)
            )
        for set_id, left in kept.quarantine.items():
            self.records[set_id] = remembered(left.reason, left.failures, set_id, now_s)
        if self.wanted != DesiredFlow():
            return  # somebody has spoken meanwhile
        # who starts a mirror that was stopped wants it to run
        is_started = kept.state is Desired.STOPPED and kept.at_ms < self._started_ms
        wanted = Desired.RUNNING if is_started else kept.state
        self.wanted = DesiredFlow(state=wanted, paused_topics=frozenset(kept.paused_topics))
        self.wanted_at_ms = kept.at_ms

    def split_hot(self) -> None:
        """Give a lane that is too much for its set one of its own, where there are hands for it."""
        copiers = len(self.open_handles())
        crowded = too_heavy(self.weights.measured, copiers)
        if not crowded or self.ownership.leaving:
            return
        plan = SetPlan(sets=self.ownership.lanes())
        weights = {
            lane: self.weights.lanes.get(lane.source, IDLE_LANE)
            for set_id in crowded
            for lane in plan.sets.get(set_id, ())
        }
        split = plan.split_hot(self.flow, weights, copiers, sum(self.weights.measured.values()))
        if split is not plan:
            self.ownership.reshape(split.sets, self._pattern)

    def divide(self, set_id: str) -> tuple[str, ...]:
        """Make two sets of one whose copiers end, and name them; none where it has a single lane."""
        plan = SetPlan(sets=self.ownership.lanes())
        after = plan.divide(self.flow, set_id)
        if after is plan:
            return ()
        self.ownership.reshape(after.sets, self._pattern)
        return tuple(sorted(known for known, held in after.sets.items() if held and plan.sets.get(known) != held))

    def release(self) -> None:
        """Try what is in quarantine now, because the operator says so."""
        for set_id in self.quarantined():
            self.records = released(self.records, set_id)

    @property
    def is_unsure(self) -> bool:
        """Whether the flow was not known to be ours for so long that another may have it."""
        return self.found.unrenewed_s > UNSURE_S

    @property
    def is_over(self) -> bool:
        """Whether the flow is not to be copied here: it was stopped, or removed, or it is not ours."""
        return self.is_removed or bool(self.taken) or self.wanted.state is Desired.STOPPED

    @property
    def is_ending(self) -> bool:
        """Whether its copiers end, or have ended, and no others are to come."""
        return self.is_over or self.mirror_ends

    @property
    def _pattern(self) -> PartitionSet:
        return PartitionSet(set_id="", flow=self.flow, epoch=0, lanes=())

    @property
    def is_known(self) -> bool:
        """Whether every copier that was found running has said what it holds."""
        return all(handle.introduced for handle in self.handles.values())

    @property
    def is_heeded(self) -> bool:
        """Whether every copier does what is wanted now; one that starts holds nothing yet."""
        paused = self.wanted.state is Desired.PAUSED
        wanted = (paused, self.wanted.paused_topics, self.wanted.wake)
        return all(handle.is_new or handle.heeds(*wanted) for handle in self.handles.values())

    def held_since(self, handle: CopierHandle | None = None) -> dict[str, float]:
        """Say since when each set is held by its copier, or which sets one copier holds."""
        handles = [handle] if handle is not None else list(self.handles.values())
        return {set_id: since for one in handles for set_id, (_, since) in one.held_since.items()}

    def quarantined(self) -> dict[str, str]:
        """Name the sets that are left alone, and why."""
        return {set_id: record.reason for set_id, record in self.records.items() if record.reason}

    def quarantined_lanes(self) -> dict[str, str]:
        return {
            str(lane): why for set_id, why in self.quarantined().items() for lane in self.ownership.sets[set_id].lanes
        }

    def open_handles(self) -> list[CopierHandle]:
        return [handle for handle in self.handles.values() if handle.is_open]

    def reported(self) -> dict[str, FlowProgress]:
        return {copier_id: handle.progress for copier_id, handle in self.handles.items() if handle.progress is not None}

    def lanes(self) -> Iterator[LaneProgress]:
        """Give every lane that some copier has reported."""
        for progress in self.reported().values():
            yield from progress.lanes

    def topics(self) -> frozenset[str]:
        return frozenset(self._partitions())

    def waiting_for(self) -> str:
        """Say what keeps the flow from copying, if something does."""
        if self.is_removed:
            return "its drain: the configuration does not have this flow any more"
        if self.taken:
            return self.taken
        if self.mirror_ends:
            return ""
        if self.wanted.state is Desired.STOPPED:
            return f"somebody to start it again: raymirror resume '{self.flow}'"
        if self.found.failure or self.found.awaited:
            return self.found.failure or self.found.awaited
        if self.serial == 0:
            return FIRST_DISCOVERY
        troubles = (handle.trouble for handle in self.handles.values())
        if trouble := next(filter(None, troubles), ""):
            return trouble
        for set_id, why in self.quarantined().items():
            return f"{set_id} is in quarantine: {why}"
        states = {handle.state for handle in self.handles.values()}
        if CopierState.STARTING in states and CopierState.READY not in states:
            return "a copier to start (needs one free CPU in the Ray cluster)"
        return "" if self.ownership.sets else "topics that match the flow's patterns"


def why_unknown(topic: str, flow_states: Sequence[FlowState]) -> UnknownTopic | TopicsNotKnownYet:
    """Return what to say of a topic that none of these flows is known to copy."""
    for flow_state in flow_states:
        if flow_state.serial == 0:
            return TopicsNotKnownYet(topic, str(flow_state.flow), flow_state.waiting_for() or FIRST_DISCOVERY)
    return UnknownTopic(topic, ", ".join(str(flow_state.flow) for flow_state in flow_states))
