"""The supervisor: compares the actual state with the wanted state, once a second, and gives orders. No Ray, no await.

One step: take reports, judge which copiers live, apply discoveries, staff each flow, place free sets, send orders.
Orders contain all that a copier is to do, so each may be repeated and any may be lost. The state is in memory: a
restarted supervisor finds the living copiers, continues from what they report to hold, and reads the wanted state from
the state topic. A set gets a new owner when its previous owner has released it, has ended, or has no lease any more.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from actors.control.bandwidth import divided
from actors.control.config_rounds import ConfigRounds
from actors.control.control_spans import ControlSpans
from actors.control.copier_handle import CopierHandle
from actors.control.copier_lifecycle import LEASE_S, CopierLifecycle
from actors.control.discovery_health import DiscoveryHealth
from actors.control.event_journal import EventJournal
from actors.control.flow_metrics import FlowMetrics
from actors.control.flow_state import FlowPlan, FlowState, Plan, TopicsNotKnownYet, plan_sets, why_unknown
from actors.control.ports import Observer, Ports, SparkPort
from actors.control.scaler import Scaler
from actors.control.scheduler import place
from actors.model.events import (
    ConfigEdited,
    CopierDrainedBadly,
    FailedOver,
    FailoverForgotten,
    FailoverOutcome,
    FlowGone,
    PausedOrResumed,
    ReloadRefused,
    SetMoved,
    TopicGone,
    spark_event,
)
from actors.model.messages import MirrorSpec, Orders, Report
from actors.model.states import (
    Command,
    CopierState,
    Desired,
    FailedOverFlow,
    NotAtRest,
    Replaced,
    StopKind,
    UnknownFlow,
    desired_after,
)
from actors.model.status import MirrorStatus
from engine.core.events.events import Event
from policies.model import FlowName


class SupervisedFlow:
    """One flow of the mirror: its state, metrics, scaler, spans and discovery health."""

    def __init__(self, flow: FlowPlan, plan: Plan, events: EventJournal, observer: Observer) -> None:
        self.state = FlowState(flow, plan)
        self.metrics = FlowMetrics(self.state)
        self.scaler = Scaler(self.state, self.metrics, flow.scaling, events)
        self.spans = ControlSpans(self.state, observer)
        self.discovery = DiscoveryHealth(flow.name)


class Supervisor:
    """Keeps a mirror in its wanted state."""

    def __init__(
        self,
        spec: MirrorSpec,
        flows: Sequence[FlowPlan],
        ports: Ports,
        plan: Plan = plan_sets,
    ) -> None:
        self.desired = Desired.RUNNING
        self.term = ports.clock.wall_ms()
        self.refused = ""
        """Why this mirror has ended: it has no flow left, because other mirrors own them."""
        self._leads = False
        self._draining = False
        self._is_edited = False
        self._spec, self._ports, self._plan = spec, ports, plan
        self._fleet, self._metadata, self._spark, self._clock = ports.fleet, ports.metadata, ports.spark, ports.clock
        self._rounds = ConfigRounds(ports.metadata)
        self._events = EventJournal(ports)
        self._lifecycle = CopierLifecycle(ports, self._events)
        self._began_at_s = self._clock.now_s()
        self._flows: dict[FlowName, SupervisedFlow] = {}
        for flow in flows:
            self._open(flow)
        for port in self._fleet.find_copiers():
            known = self._flows.get(port.flow)
            if known is None:
                self._events.note(FlowGone(flow=port.flow, copier=port.copier_id))
                self._fleet.retire(port)
            else:
                known.state.handles[port.copier_id] = CopierHandle(port, self._began_at_s, adopted=True)

    def _open(self, flow: FlowPlan) -> None:
        self._flows[flow.name] = SupervisedFlow(flow, self._plan, self._events, self._ports.observer)

    def _states(self) -> Iterator[FlowState]:
        return (flow.state for flow in self._flows.values())

    def _handles(self) -> Iterator[CopierHandle]:
        return (handle for flow_state in self._states() for handle in flow_state.handles.values())

    # --- another configuration -------------------------------------------------------------------------------

    def reconfigure(self, spec: MirrorSpec, flows: Sequence[FlowPlan], taken: Sequence[Event] = ()) -> None:
        """Apply another configuration; each flow keeps everything that does not differ. `taken`: events about it.

        A flow that the new configuration does not have is drained, then given back and forgotten.
        """
        self._spec, self._is_edited = spec, False
        for flow in flows:
            if (known := self._flows.get(flow.name)) is not None:
                known.state.replan(flow)
                known.scaler.limit(flow.scaling)
            else:
                self._open(flow)
        for name in self._flows.keys() - {flow.name for flow in flows}:
            self._flows[name].state.is_removed = True
        self._events.note(*taken)

    @property
    def is_reloading(self) -> bool:
        """Whether a flow that was removed is still being drained."""
        return any(flow_state.is_removed for flow_state in self._states())

    @property
    def is_ending(self) -> bool:
        return self._draining

    def replace_spark(self, spark: SparkPort) -> None:
        """Use another Spark from now on."""
        self._spark = spark

    def _forget_removed(self) -> None:
        """Give back and forget the flows that were removed and are drained."""
        for flow_state in list(self._states()):
            if flow_state.is_removed and not flow_state.handles:
                del self._flows[flow_state.flow]
                self._metadata.give_back(flow_state.flow)

    # --- a step ----------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Do one round. Raises Replaced; anything else it raises is a bug."""
        now_s = self._clock.now_s()
        for flow in self._flows.values():
            self._hear(flow.state)
            for handle in self._lifecycle.ended(flow.state):
                self._bury(flow, handle)
        for flow in self._flows.values():
            self._apply_discovery(flow)
            if self._draining or flow.state.is_over:
                self._drain(flow)
            elif not flow.state.is_held_back:
                flow.scaler.update(now_s, self._clock.wall_ms())
                self._lifecycle.staff(flow.state)
                place(flow.state, now_s)
            self._direct(flow.state)
            if flow.state.is_state_read:
                self._store(flow.state)
            flow.metrics.mark(now_s)
            flow.spans.update(now_s)
        self._forget_removed()
        self._hear_spark()

    def _hear_spark(self) -> None:
        for news in self._spark.take_news():
            self._events.note(*(spark_event(flow, news) for flow in self._flows))
        self._events.note(*self._spark.take_events())
        self._spark.note_activity((name, flow.state.lanes()) for name, flow in self._flows.items())
        self._rounds.step(self._flows, self._spark)

    def _hear(self, flow_state: FlowState) -> None:
        for handle in flow_state.handles.values():
            if handle.port.vital().state == "ready":
                handle.note_answer(self._clock.now_s())
            for report in handle.port.reports():
                self._settle_term(report)
                handle.note_report(report, self._clock.now_s())
                self._events.note_logged(*report.progress.events)
                if not handle.introduced:
                    handle.introduced = True
                    flow_state.ownership.adopt(handle.copier_id, report.sets)
            if handle.follows and handle.report is not None:
                # a copier may drain a lane of a divided set under the old set's id: it counts until the lane is gone
                lanes = {lane.lane for lane in handle.report.progress.lanes} if flow_state.ownership.leaving else ()
                for set_id in flow_state.ownership.let_go(handle.copier_id, handle.report.held, lanes):
                    taker = flow_state.ownership.owner[set_id]
                    moved = SetMoved(flow=flow_state.flow, set_id=set_id, giver=handle.copier_id, taker=taker)
                    self._events.note(moved)

    def _settle_term(self, report: Report) -> None:
        """Raise the term above every reported one, but only while no copier follows this term. Raises Replaced."""
        if report.term > self.term:
            if self._leads:
                raise Replaced(self.term, report.term)
            self.term = report.term + 1
        self._leads = self._leads or report.term == self.term

    def _bury(self, flow: SupervisedFlow, handle: CopierHandle) -> None:
        now_s, last = self._clock.now_s(), handle.port.vital().last
        if last is not None and handle.report is not None:
            handle.note_report(msgspec.structs.replace(handle.report, progress=last), now_s)
            self._events.note_logged(*last.events)
        flow.metrics.bury(handle)
        flow.spans.lost(handle.copier_id, flow.state.ownership.vacate(handle.copier_id), now_s)
        del flow.state.handles[handle.copier_id]
        self._fleet.retire(handle.port)

    def _apply_discovery(self, flow: SupervisedFlow) -> None:
        flow_state, now_s = flow.state, self._clock.now_s()
        found = self._metadata.found(flow_state.flow)
        self._events.note(*flow.discovery.events(found, now_s))
        for topic, partitions in flow_state.apply_discovery(found, now_s).items():
            self._events.note(TopicGone(flow=flow_state.flow, topic=topic, partitions=partitions))
        self._events.note(*found.events)
        if not self._draining and all(one.is_over and not one.may_return for one in self._states()):
            self.refused = next((why for one in self._states() if (why := one.taken or one.refused)), "")
            if not self.refused:
                self.desired = Desired.STOPPED
            self.drain()

    def _drain(self, flow: SupervisedFlow) -> None:
        now_s, drain_s = self._clock.now_s(), self._spec.drain_s
        for handle in list(flow.state.handles.values()):
            if handle.is_new or (flow.state.taken and flow.state.is_unsure):
                # it holds nothing, and may never answer; or another mirror owned the flow before this one knew
                self._bury(flow, handle)
            elif handle.drain_asked_at_s is None:
                handle.ask_drain(now_s)
            elif now_s - handle.drain_asked_at_s > drain_s:
                late = f"did not drain in {drain_s:.0f} s; killed"
                self._events.note(CopierDrainedBadly(flow=flow.state.flow, copier=handle.copier_id, what=late))
                self._bury(flow, handle)

    def _direct(self, flow_state: FlowState) -> None:
        introduction = Orders(term=self.term, version=0, sets=None, lease_s=LEASE_S, unsure=flow_state.is_unsure)
        traffic = divided(flow_state.traffic, flow_state.handles.values())
        for handle in flow_state.handles.values():
            if handle.state is CopierState.STARTING:
                continue  # it has not answered yet
            if not handle.introduced:
                handle.port.send(introduction)
                continue
            if handle.is_adopted and flow_state.may_be_paused and handle.drain_asked_at_s is None:
                handle.port.send(introduction)  # it follows its earlier orders, which may have paused something
                continue
            orders = msgspec.structs.replace(
                introduction,
                paused=flow_state.wanted.state is Desired.PAUSED,
                paused_topics=flow_state.wanted.paused_topics,
                wake=flow_state.wanted.wake,
                drain=handle.drain_asked_at_s is not None,
                traffic=traffic.get(handle.copier_id),
            )
            handle.direct(orders, flow_state.ownership.orders_for(handle.copier_id), self._clock.now_s())

    def _store(self, flow_state: FlowState) -> None:
        """Have Metadata store the state of a flow if it has changed."""
        state = flow_state.remembered(self._clock.wall_ms())
        if state != flow_state.stored:
            flow_state.stored = state
            self._metadata.store_state(flow_state.flow, state)

    # --- commands --------------------------------------------------------------------------------------------

    def command(self, command: Command, flow: str | None = None, topics: tuple[str, ...] = ()) -> None:
        """Note a command; the next step carries it out.

        Raises UnknownFlow, UnknownTopic, TopicsNotKnownYet, IllegalCommand.
        """
        if command is Command.FORGET:
            self._forget_failover(self._flow_state(flow or ""))
            return
        if command in (Command.PAUSE_MOVED, Command.RELEASE_MOVED):
            self._change_moved(command, self._flow_state(flow or ""), topics)
            return
        kind = StopKind.FLOW if flow is not None else StopKind.MIRROR
        self._command(command, [self._flow_state(flow)] if flow is not None else self._meant(command), topics, kind)
        if flow is None and not topics:
            self.desired = desired_after(self.desired, command)
        if self.desired is Desired.STOPPED:
            self.drain()

    def _forget_failover(self, flow_state: FlowState) -> None:
        flow_state.forget_failover()
        flow_state.wanted_at_ms = self._clock.wall_ms()
        self._events.note(FailoverForgotten(flow=flow_state.flow))
        self._store(flow_state)

    def _change_moved(self, command: Command, flow_state: FlowState, topics: tuple[str, ...]) -> None:
        """Pause or release topics whose producers move, also of a stopped flow. Raises TopicsNotKnownYet."""
        if not flow_state.is_state_read:  # else what is stored would not count
            raise TopicsNotKnownYet(", ".join(topics), str(flow_state.flow), flow_state.waiting_for() or "its state")
        if command is Command.PAUSE_MOVED:
            flow_state.pause_moved(topics)
        else:
            flow_state.release_moved(topics)
        if not flow_state.failed_over:  # else it is the time of the failover
            flow_state.wanted_at_ms = self._clock.wall_ms()
        self._events.note(PausedOrResumed(flow=flow_state.flow, command=command, topics=topics))
        self._store(flow_state)

    def _meant(self, command: Command) -> list[FlowState]:
        """Return the flows to which a command to all flows applies: not to one that was stopped alone.

        But a stop of the whole mirror counts for that one too: else the next supervisor would stay for it.
        """
        return [
            one
            for one in self._states()
            if not one.is_removed
            and (one.wanted.state is not Desired.STOPPED or (command is Command.STOP and one.may_return))
        ]

    def _command(
        self, command: Command, flow_states: Sequence[FlowState], topics: tuple[str, ...], stop: StopKind
    ) -> None:
        desired_after(self.desired, command)  # whether the mirror allows it
        copied = {one.flow: one.known_of(topics) for one in flow_states}  # check all topics before any change
        for topic in topics:
            if not any(topic in known for known in copied.values()):
                raise why_unknown(topic, flow_states)
        for flow_state in flow_states:
            flow_state.refuse_moved(command, copied[flow_state.flow])
        for flow_state in flow_states:
            known = copied[flow_state.flow]
            if topics and not known:
                continue
            flow_state.command(command, known, stop)
            flow_state.wanted_at_ms = self._clock.wall_ms()
            if command is not Command.STOP:
                moved = () if topics else tuple(sorted(flow_state.wanted.moved_topics))
                self._events.note(PausedOrResumed(flow=flow_state.flow, command=command, topics=known, moved=moved))
            self._store(flow_state)

    def delete(self, flow: str) -> None:
        """Stop one flow, which then has no connector until it is resumed, paused or stopped. Raises UnknownFlow."""
        self._command(Command.STOP, [self._flow_state(flow)], (), StopKind.DELETED)

    @contextmanager
    def at_rest(self, flow: str) -> Iterator[None]:
        """Let no copier of a stopped flow start while the block runs. Raises UnknownFlow, NotAtRest."""
        flow_state = self._flow_state(flow)
        if flow_state.wanted.state is not Desired.STOPPED or self._draining:
            raise NotAtRest(flow, "it is not stopped, or its mirror ends")
        if flow_state.handles:
            raise NotAtRest(flow, "its copiers are still being drained; try again")
        if flow_state.is_held_back:
            raise NotAtRest(flow, "another request changes them; try again")
        flow_state.is_held_back = True
        try:
            yield
        finally:
            flow_state.is_held_back = False

    def fail_over(self, flow: str, outcome: FailoverOutcome) -> None:
        """Stop one flow for good, its consumers having moved to the target. Raises UnknownFlow."""
        flow_state = self._flow_state(flow)
        stop = StopKind.SWITCHOVER if outcome.switched else StopKind.FAILOVER
        self._command(Command.STOP, [flow_state], (), stop)
        goes_on = not self._draining and any(not one.is_over or one.may_return for one in self._states())
        self._events.note(FailedOver(flow=flow_state.flow, outcome=outcome, mirror_goes_on=goes_on))

    def restart(self, flow: str, copiers: Collection[str] | None = None) -> None:
        """Replace the copiers of a flow, one by one, and try its quarantined sets again; `copiers`: only these.

        Raises UnknownFlow, FailedOverFlow: it has no copiers. A copier that has ended since is ignored.
        """
        flow_state = self._flow_state(flow)
        if flow_state.failed_over:
            raise FailedOverFlow("restart", flow, flow_state.wanted.stop)
        flow_state.release()
        for handle in flow_state.handles.values():
            if copiers is None or handle.copier_id in copiers:
                handle.is_outdated = True

    def clear_node(self, node: str) -> int:
        """Replace the copiers on a node by others elsewhere; return how many are still there."""
        there = [handle for handle in self._handles() if handle.report is not None and handle.report.node == node]
        for handle in there:
            handle.is_outdated = True
        return len(there)

    def see_edited(self, *, edited: bool) -> None:
        """Note an event when the configuration file begins to differ from the one in use."""
        if edited and not self._is_edited:
            for flow in self._flows:
                self._events.note(ConfigEdited(flow=flow, path=self._spec.config.path))
        self._is_edited = edited

    def see_refused(self, why: str) -> None:
        """Note why the watched configuration file cannot be applied."""
        for flow in self._flows:
            self._events.note(ReloadRefused(flow=flow, path=self._spec.config.path, why=why))

    def drain(self) -> None:
        """End the copying in order; the wanted state stays, and no later command undoes it."""
        self._draining = True
        for flow_state in self._states():
            flow_state.mirror_ends = True

    @property
    def is_drained(self) -> bool:
        """Whether every copier is gone after `drain` or a stop."""
        return self._draining and not any(self._handles())

    def _flow_state(self, flow: str) -> FlowState:
        for flow_state in self._states():
            if str(flow_state.flow) == flow:
                return flow_state
        raise UnknownFlow(flow, tuple(map(str, self._flows)))

    # --- status ----------------------------------------------------------------------------------------------

    def status(self, *, lanes: bool = False) -> MirrorStatus:
        """Return the status of the mirror; `lanes` adds every lane, which can be many."""
        metrics = [flow.metrics for flow in self._flows.values()]
        return MirrorStatus(
            namespace=self._spec.namespace,
            version=self._spec.version,
            config_path=self._spec.config.path,
            config_digest=self._spec.config.digest,
            instance_id=self._spec.instance_id,
            desired=self.desired,
            phase=self._phase(),
            at_ms=self._clock.wall_ms(),
            up_s=self._clock.now_s() - self._began_at_s,
            flows=tuple(one.status() for one in metrics),
            copiers=tuple(copier for one in metrics for copier in one.copiers()),
            events=tuple(self._events.lines),
            refused=self.refused,
            lanes=tuple(lane for one in metrics for lane in one.lanes()) if lanes else (),
            topics=tuple(topic for one in metrics for topic in one.topics()) if lanes else (),
            spark=self._spark.status(),
            proofs={
                flow: proof if lanes else msgspec.structs.replace(proof, lanes=())
                for flow, proof in self._spark.proofs().items()
            },
        )

    def _phase(self) -> str:
        if self._draining:
            return "stopped" if self.is_drained else "draining"
        if all(one.is_over for one in self._states()):
            return "running"  # each flow is stopped, and one may be resumed
        # whether some flow has discovered its topics, or was adopted with its lanes
        has_begun = any(one.serial or next(one.lanes(), None) is not None for one in self._states())
        if has_begun and any(handle.state is CopierState.READY for handle in self._handles()):
            return "running"
        # a cluster that does not answer, or anything else that keeps all flows from their first discovery
        waits = not has_begun and any(flow_state.found.failure for flow_state in self._states())
        waits = waits or any(flow_state.lacks for flow_state in self._states())
        return "waiting" if waits else "starting"
