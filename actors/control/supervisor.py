"""The supervisor: compares what is with what is wanted, once a second, and says what to do. No Ray, no await.

One step: hear reports, judge who lives, look at what Metadata found, staff each flow, place free sets, give orders.
Orders say all that a copier is to do, so each may be said twice and any may be lost. The state lives in memory: a
restarted supervisor finds the living copiers, hears what they hold, and goes on from there; what is wanted it reads
from the state topic. A set gets a new owner when the former one has let it go, has ended, or has no lease any more.
"""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from actors.control.control_spans import ControlSpan, ControlSpans
from actors.control.copier_handle import CopierHandle
from actors.control.copier_lifecycle import CopierLifecycle
from actors.control.discovery_health import DiscoveryHealth
from actors.control.flow_metrics import FlowMetrics
from actors.control.flow_state import FlowPlan, FlowState, Plan, why_unknown
from actors.control.identity import Durations, Identity
from actors.control.ports import Fleet, MetadataPort, SparkPort
from actors.control.scaler import Scaler
from actors.control.scheduler import place
from actors.logging.logs import log_event
from actors.model.events import (
    ConfigEdited,
    CopierDrainedBadly,
    FailedOver,
    FailoverOutcome,
    FlowGone,
    PausedOrResumed,
    SetMoved,
    TopicGone,
    spark_event,
)
from actors.model.messages import Orders, Report
from actors.model.spark_status import SparkStatus
from actors.model.states import Command, CopierState, Desired, Replaced, Sign, UnknownFlow, desired_after
from actors.model.status import EVENTS_KEPT, EventLine, MirrorStatus
from engine.core.events.events import Event
from engine.jobs.proof.state import FlowProof
from policies.model import FlowName


class Supervisor:
    """Keeps a mirror as it is wanted. `clock_s` is monotonic, `wall_ms` is Unix time."""

    def __init__(
        self,
        identity: Identity,
        flows: Sequence[FlowPlan],
        *,
        fleet: Fleet,
        metadata: MetadataPort,
        plan: Plan,
        clock_s: Callable[[], float],
        wall_ms: Callable[[], int],
        options: Durations,
        spark: SparkPort | None = None,
        proofs: Callable[[], dict[str, FlowProof]] = dict,
        heard: Callable[[EventLine], None] = lambda _: None,
        done: Callable[[ControlSpan], None] = lambda _: None,
    ) -> None:
        self.identity = identity
        self.desired = Desired.RUNNING
        self.term = wall_ms()
        self.refused = ""
        """Why this mirror has ended: of its flows none is left, because others mirror them."""
        self._leads = False
        self._draining = False
        self._is_edited = False
        self._flow_states: dict[FlowName, FlowState] = {}
        self._flow_metrics: dict[FlowName, FlowMetrics] = {}
        self._scalers: dict[FlowName, Scaler] = {}
        self._spans: dict[FlowName, ControlSpans] = {}
        self._discovery: dict[FlowName, DiscoveryHealth] = {}
        self._plan, self._done = plan, done
        self._fleet, self._metadata, self._spark, self._proofs = fleet, metadata, spark, proofs
        self._clock_s, self._wall_ms, self._options, self._heard = clock_s, wall_ms, options, heard
        self._events: deque[EventLine] = deque(maxlen=EVENTS_KEPT)
        self._began_at_s = clock_s()
        for flow in flows:
            self._open(flow)
        self._lifecycle = CopierLifecycle(fleet, clock_s, options.lease_s, self._note)
        for port in fleet.find_copiers():
            flow_state = self._flow_states.get(port.flow)
            if flow_state is None:
                self._note(FlowGone(flow=port.flow, copier=port.copier_id))
                fleet.retire(port)
            else:
                flow_state.handles[port.copier_id] = CopierHandle(port, self._began_at_s, adopted=True)

    def _open(self, flow: FlowPlan) -> None:
        flow_state = self._flow_states[flow.name] = FlowState(flow, self._plan)
        metrics = self._flow_metrics[flow.name] = FlowMetrics(flow_state)
        self._scalers[flow.name] = Scaler(flow_state, metrics, flow.scaling, self._note)
        self._spans[flow.name] = ControlSpans(flow_state, self._done)
        self._discovery[flow.name] = DiscoveryHealth(flow.name)

    # --- another configuration -------------------------------------------------------------------------------

    def reconfigure(self, identity: Identity, flows: Sequence[FlowPlan], taken: Sequence[Event] = ()) -> None:
        """Take another configuration over: what a flow has stays, but for what differs. `taken` tells of it.

        A flow that is not in it any more is drained, then given back and forgotten.
        """
        self.identity, self._is_edited = identity, False
        for flow in flows:
            if flow.name in self._flow_states:
                self._flow_states[flow.name].replan(flow)
                self._scalers[flow.name].limit(flow.scaling)
            else:
                self._open(flow)
        for name in self._flow_states.keys() - {flow.name for flow in flows}:
            self._flow_states[name].is_removed = True
        self._note(*taken)

    @property
    def is_reloading(self) -> bool:
        """Whether a flow that was removed is still being drained."""
        return any(flow_state.is_removed for flow_state in self._flow_states.values())

    @property
    def is_ending(self) -> bool:
        return self._draining

    def hear(self, spark: SparkPort | None, proofs: Callable[[], dict[str, FlowProof]]) -> None:
        """Hear another Spark from now on."""
        self._spark, self._proofs = spark, proofs

    def _forget(self) -> None:
        """Give back the flows that were removed and are drained."""
        for name, flow_state in list(self._flow_states.items()):
            if flow_state.is_removed and not flow_state.handles:
                for known in (self._flow_states, self._flow_metrics, self._scalers, self._spans, self._discovery):
                    del known[name]
                self._metadata.give_back(name)

    # --- a step ----------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Do one round. Raises Replaced; anything else it raises is a bug."""
        for flow_state in self._flow_states.values():
            self._hear(flow_state)
            for handle in self._lifecycle.ended(flow_state):
                self._bury(flow_state, handle)
        for flow_state in self._flow_states.values():
            self._look(flow_state)
            if self._draining or flow_state.is_over:
                self._drain(flow_state)
            else:
                self._scalers[flow_state.flow].look(self._clock_s(), self._wall_ms())
                self._lifecycle.staff(flow_state)
                place(flow_state, self._clock_s())
            self._direct(flow_state)
            if flow_state.is_kept:
                self._remember(flow_state)
            self._flow_metrics[flow_state.flow].mark(self._clock_s())
            self._spans[flow_state.flow].look(self._clock_s())
        self._forget()
        self._hear_spark()

    def _hear_spark(self) -> None:
        if self._spark is None:
            return
        for news in self._spark.take_news():
            self._note(*(spark_event(flow, news) for flow in self._flow_states))
        self._note(*self._spark.take_events())
        self._spark.note_activity((flow, flow_state.lanes()) for flow, flow_state in self._flow_states.items())

    def _hear(self, flow_state: FlowState) -> None:
        for handle in flow_state.handles.values():
            if handle.port.vital().state == "ready":
                handle.answer(self._clock_s())
            for report in handle.port.reports():
                self._settle_term(report)
                handle.take(report, self._clock_s())
                self._note(*report.progress.events, logged=True)  # by the copier, with set and epoch
                if not handle.introduced:
                    handle.introduced = True
                    flow_state.ownership.adopt(handle.copier_id, report.sets)
            if handle.follows and handle.report is not None:
                # a lane that was divided off unheard is drained as a part of its old set: it counts until it is gone
                lanes = {lane.lane for lane in handle.report.progress.lanes} if flow_state.ownership.leaving else ()
                for set_id in flow_state.ownership.let_go(handle.copier_id, handle.report.held, lanes):
                    taker = flow_state.ownership.owner[set_id]
                    self._note(SetMoved(flow=flow_state.flow, set_id=set_id, giver=handle.copier_id, taker=taker))

    def _settle_term(self, report: Report) -> None:
        """Lead above every term that was heard of, but only while nobody has begun to follow this one."""
        if report.term > self.term:
            if self._leads:
                raise Replaced(self.term, report.term)
            self.term = report.term + 1
        self._leads = self._leads or report.term == self.term

    def _bury(self, flow_state: FlowState, handle: CopierHandle) -> None:
        handle.sign(Sign.ENDED)
        last = handle.port.vital().last
        if last is not None and handle.report is not None:
            handle.take(msgspec.structs.replace(handle.report, progress=last), self._clock_s())
            self._note(*last.events, logged=True)
        self._flow_metrics[flow_state.flow].bury(handle)
        self._spans[flow_state.flow].lost(
            handle.copier_id, flow_state.ownership.vacate(handle.copier_id), self._clock_s()
        )
        del flow_state.handles[handle.copier_id]
        self._fleet.retire(handle.port)

    def _look(self, flow_state: FlowState) -> None:
        found = self._metadata.found(flow_state.flow)
        self._note(*self._discovery[flow_state.flow].events(found, self._clock_s()))
        for topic, partitions in flow_state.take(found, self._clock_s()).items():
            self._note(TopicGone(flow=flow_state.flow, topic=topic, partitions=partitions))
        self._note(*found.events)
        if not self._draining and all(one.is_over for one in self._flow_states.values()):
            self.refused = next((one.taken for one in self._flow_states.values() if one.taken), "")
            if not self.refused:
                self.desired = Desired.STOPPED
            self.drain()

    def _drain(self, flow_state: FlowState) -> None:
        for handle in list(flow_state.handles.values()):
            if handle.is_new or (flow_state.taken and flow_state.is_unsure):
                # it holds nothing, and may never answer; or the flow was another's before we knew
                self._bury(flow_state, handle)
            elif handle.drain_asked_at_s is None:
                handle.ask_drain(self._clock_s())
            elif self._clock_s() - handle.drain_asked_at_s > self._options.drain_s:
                late = f"did not drain in {self._options.drain_s:.0f} s; killed"
                self._note(CopierDrainedBadly(flow=flow_state.flow, copier=handle.copier_id, what=late))
                self._bury(flow_state, handle)

    def _direct(self, flow_state: FlowState) -> None:
        for handle in flow_state.handles.values():
            if handle.state is CopierState.STARTING:
                continue  # it has not answered yet
            if handle.introduced:
                orders = Orders(
                    term=self.term,
                    version=0,
                    sets=None,
                    lease_s=self._options.lease_s,
                    paused=flow_state.wanted.state is Desired.PAUSED,
                    paused_topics=flow_state.wanted.paused_topics,
                    wake=flow_state.wanted.wake,
                    drain=handle.drain_asked_at_s is not None,
                    unsure=flow_state.is_unsure,
                )
                handle.direct(orders, flow_state.ownership.orders_for(handle.copier_id), self._clock_s())
            else:
                lease_s = self._options.lease_s
                handle.port.tell(
                    Orders(term=self.term, version=0, sets=None, lease_s=lease_s, unsure=flow_state.is_unsure)
                )

    def _remember(self, flow_state: FlowState) -> None:
        kept = flow_state.kept(self._wall_ms())
        if kept != flow_state.said:
            flow_state.said = kept
            self._metadata.keep(flow_state.flow, kept)

    # --- commands --------------------------------------------------------------------------------------------

    def command(self, command: Command, flow: str | None = None, topics: tuple[str, ...] = ()) -> None:
        """Note a command; the next step carries it out.

        Raises UnknownFlow, UnknownTopic, TopicsNotKnownYet, IllegalCommand.
        """
        after = desired_after(self.desired, command)
        # what is said to all is not meant for a flow that was stopped by itself
        everyone = [
            flow_state
            for flow_state in self._flow_states.values()
            if not flow_state.is_removed and flow_state.wanted.state is not Desired.STOPPED
        ]
        flow_states = [self._flow_state(flow)] if flow is not None else everyone
        copied = {
            flow_state.flow: flow_state.known_of(topics) for flow_state in flow_states
        }  # all is checked before anything is changed
        for topic in topics:
            if not any(topic in known for known in copied.values()):
                raise why_unknown(topic, flow_states)
        for flow_state in flow_states:
            if topics and not copied[flow_state.flow]:
                continue
            flow_state.command(command, copied[flow_state.flow])
            flow_state.wanted_at_ms = self._wall_ms()
            if command is not Command.STOP:
                self._note(PausedOrResumed(flow=flow_state.flow, command=command, topics=copied[flow_state.flow]))
            self._remember(flow_state)
        if flow is None and not topics:
            self.desired = after
        if self.desired is Desired.STOPPED:
            self.drain()

    def fail_over(self, flow: str, outcome: FailoverOutcome) -> None:
        """Stop one flow for good, its consumers having moved to the target. Raises UnknownFlow."""
        flow_state = self._flow_state(flow)
        self.command(Command.STOP, flow)
        flow_state.failed_over = True
        goes_on = not self._draining and any(not one.is_over for one in self._flow_states.values())
        self._note(FailedOver(flow=flow_state.flow, outcome=outcome, mirror_goes_on=goes_on))

    def restart(self, flow: str) -> None:
        """Have the copiers of a flow replaced, one by one, and what is in quarantine tried. Raises UnknownFlow."""
        flow_state = self._flow_state(flow)
        flow_state.release()
        for handle in flow_state.handles.values():
            handle.is_outdated = True

    def clear_node(self, node: str) -> int:
        """Have the copiers on a node replaced by others elsewhere; say how many are left there."""
        handles = [handle for flow_state in self._flow_states.values() for handle in flow_state.handles.values()]
        there = [handle for handle in handles if handle.report is not None and handle.report.node == node]
        for handle in there:
            handle.is_outdated = True
        return len(there)

    def see_edited(self, *, edited: bool) -> None:
        """Say once that the configuration file is not what it was, each time it becomes another."""
        if edited and not self._is_edited:
            for flow in self._flow_states:
                self._note(ConfigEdited(flow=flow, path=self.identity.config_path))
        self._is_edited = edited

    def drain(self) -> None:
        """End the copying in order, whatever is wanted afterwards."""
        self._draining = True
        for flow_state in self._flow_states.values():
            flow_state.mirror_ends = True

    @property
    def is_drained(self) -> bool:
        """Whether every copier is gone after `drain` or a stop."""
        return self._draining and not any(flow_state.handles for flow_state in self._flow_states.values())

    def _flow_state(self, flow: str) -> FlowState:
        for name, flow_state in self._flow_states.items():
            if str(name) == flow:
                return flow_state
        raise UnknownFlow(flow, tuple(str(name) for name in self._flow_states))

    # --- what it tells ---------------------------------------------------------------------------------------

    def status(self, *, lanes: bool = False) -> MirrorStatus:
        """Say how everything is; `lanes` adds every lane, which can be many."""
        return MirrorStatus(
            namespace=self.identity.namespace,
            version=self.identity.version,
            config_path=self.identity.config_path,
            config_digest=self.identity.config_digest,
            instance_id=self.identity.instance_id,
            desired=self.desired,
            phase=self._phase(),
            at_ms=self._wall_ms(),
            up_s=self._clock_s() - self._began_at_s,
            flows=tuple(metrics.status() for metrics in self._flow_metrics.values()),
            copiers=tuple(copier for metrics in self._flow_metrics.values() for copier in metrics.copiers()),
            events=tuple(self._events),
            refused=self.refused,
            lanes=tuple(lane for metrics in self._flow_metrics.values() for lane in metrics.lanes()) if lanes else (),
            topics=tuple(one for metrics in self._flow_metrics.values() for one in metrics.topics()) if lanes else (),
            spark=self._spark.status() if self._spark is not None else SparkStatus(),
            proofs={
                flow: proof if lanes else msgspec.structs.replace(proof, lanes=())
                for flow, proof in self._proofs().items()
            },
        )

    def _phase(self) -> str:
        if self._draining:
            return "stopped" if self.is_drained else "draining"
        handles = [handle for flow_state in self._flow_states.values() for handle in flow_state.handles.values()]
        if self._has_begun() and any(handle.state is CopierState.READY for handle in handles):
            return "running"
        # a cluster that does not answer, or whatever else keeps all flows from their first discovery
        waits = not self._has_begun() and any(flow_state.failure for flow_state in self._flow_states.values())
        return "waiting" if waits else "starting"

    def _has_begun(self) -> bool:
        """Whether some flow has discovered its topics, or was adopted with its lanes."""
        return any(
            flow_state.serial or next(flow_state.lanes(), None) is not None for flow_state in self._flow_states.values()
        )

    def _note(self, *events: Event, logged: bool = False) -> None:
        for event in events:
            line = EventLine(
                at_ms=self._wall_ms(),
                severity=event.severity,
                flow=str(event.flow),
                text=event.text(),
                about=event.about,
                kind=str(type(event).__struct_config__.tag),
            )
            self._events.append(line)
            self._metadata.tell(event)
            if not logged:
                log_event(event)
            self._heard(line)
