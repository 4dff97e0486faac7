"""The supervisor: compares what is with what is wanted, once a second, and says what to do. No Ray, no await.

One step: hear reports, judge who lives, look at what Metadata found, staff each flow, place free sets, give orders.
Orders say all that a copier is to do, so each may be said twice and any may be lost. The state lives in memory: a
restarted supervisor finds the living copiers, hears what they hold, and goes on from there; what is wanted it reads
from the state topic. A set gets a new owner when the former one has let it go, has ended, or has no lease any more.
"""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from actors.crew import Crew
from actors.deeds import Deed, Deeds
from actors.desk import FlowDesk, FlowPlan, Plan, why_unknown
from actors.discovery_health import DiscoveryHealth
from actors.events import (
    ConfigEdited,
    CopierDrainedBadly,
    FailedOver,
    FlowGone,
    Outcome,
    PausedOrResumed,
    SetMoved,
    TopicGone,
    spark_event,
)
from actors.identity import Identity, Terms
from actors.logs import log_event
from actors.messages import Orders, Report
from actors.placing import place
from actors.ports import Fleet, MetadataPort, SparkPort
from actors.scaler import Scaler
from actors.seat import Seat
from actors.spark.status import SparkStatus
from actors.states import Command, CopierState, Desired, Replaced, Sign, UnknownFlow, desired_after
from actors.status import EVENTS_KEPT, EventLine, MirrorStatus
from actors.tally import Tally
from engine.core.events import Event
from engine.jobs.proof_state import FlowProof
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
        terms: Terms,
        spark: SparkPort | None = None,
        proofs: Callable[[], dict[str, FlowProof]] = dict,
        heard: Callable[[EventLine], None] = lambda _: None,
        done: Callable[[Deed], None] = lambda _: None,
    ) -> None:
        self.identity = identity
        self.desired = Desired.RUNNING
        self.term = wall_ms()
        self.refused = ""
        """Why this mirror has ended: of its flows none is left, because others mirror them."""
        self._leads = False
        self._draining = False
        self._is_edited = False
        self._desks: dict[FlowName, FlowDesk] = {}
        self._tallies: dict[FlowName, Tally] = {}
        self._scalers: dict[FlowName, Scaler] = {}
        self._deeds: dict[FlowName, Deeds] = {}
        self._discovery: dict[FlowName, DiscoveryHealth] = {}
        self._plan, self._done = plan, done
        self._fleet, self._metadata, self._spark, self._proofs = fleet, metadata, spark, proofs
        self._clock_s, self._wall_ms, self._terms, self._heard = clock_s, wall_ms, terms, heard
        self._events: deque[EventLine] = deque(maxlen=EVENTS_KEPT)
        self._began_at_s = clock_s()
        for flow in flows:
            self._open(flow)
        self._crew = Crew(fleet, clock_s, terms.lease_s, self._note)
        for port in fleet.find_copiers():
            desk = self._desks.get(port.flow)
            if desk is None:
                self._note(FlowGone(flow=port.flow, copier=port.copier_id))
                fleet.retire(port)
            else:
                desk.seats[port.copier_id] = Seat(port, self._began_at_s, adopted=True)

    def _open(self, flow: FlowPlan) -> None:
        """Begin the bookkeeping of a flow."""
        desk = self._desks[flow.name] = FlowDesk(flow, self._plan)
        tally = self._tallies[flow.name] = Tally(desk)
        self._scalers[flow.name] = Scaler(desk, tally, flow.scaling, self._note)
        self._deeds[flow.name] = Deeds(desk, self._done)
        self._discovery[flow.name] = DiscoveryHealth(flow.name)

    # --- another configuration -------------------------------------------------------------------------------

    def reconfigure(self, identity: Identity, flows: Sequence[FlowPlan], taken: Sequence[Event] = ()) -> None:
        """Take another configuration over: what a flow has stays, but for what differs. `taken` tells of it.

        A flow that is not in it any more is drained, then given back and forgotten.
        """
        self.identity, self._is_edited = identity, False
        for flow in flows:
            if flow.name in self._desks:
                self._desks[flow.name].replan(flow)
                self._scalers[flow.name].limit(flow.scaling)
            else:
                self._open(flow)
        for name in self._desks.keys() - {flow.name for flow in flows}:
            self._desks[name].is_removed = True
        self._note(*taken)

    @property
    def is_reloading(self) -> bool:
        """Whether a flow that was removed is still being drained."""
        return any(desk.is_removed for desk in self._desks.values())

    @property
    def is_ending(self) -> bool:
        """Whether the mirror ends."""
        return self._draining

    def hear(self, spark: SparkPort | None, proofs: Callable[[], dict[str, FlowProof]]) -> None:
        """Hear another Spark from now on."""
        self._spark, self._proofs = spark, proofs

    def _forget(self) -> None:
        """Give back the flows that were removed and are drained."""
        for name, desk in list(self._desks.items()):
            if desk.is_removed and not desk.seats:
                for known in (self._desks, self._tallies, self._scalers, self._deeds, self._discovery):
                    del known[name]
                self._metadata.give_back(name)

    # --- a step ----------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Do one round. Raises Replaced; anything else it raises is a bug."""
        for desk in self._desks.values():
            self._hear(desk)
            for seat in self._crew.ended(desk):
                self._bury(desk, seat)
        for desk in self._desks.values():
            self._look(desk)
            if self._draining or desk.is_over:
                self._drain(desk)
            else:
                self._scalers[desk.flow].look(self._clock_s(), self._wall_ms())
                self._crew.staff(desk)
                place(desk, self._clock_s())
            self._direct(desk)
            if desk.is_kept:
                self._remember(desk)
            self._tallies[desk.flow].mark(self._clock_s())
            self._deeds[desk.flow].look(self._clock_s())
        self._forget()
        self._hear_spark()

    def _hear_spark(self) -> None:
        if self._spark is None:
            return
        for news in self._spark.take_news():
            self._note(*(spark_event(flow, news) for flow in self._desks))
        self._note(*self._spark.take_events())
        self._spark.note_activity((flow, desk.lanes()) for flow, desk in self._desks.items())

    def _hear(self, desk: FlowDesk) -> None:
        for seat in desk.seats.values():
            if seat.port.vital().state == "ready":
                seat.answer(self._clock_s())
            for report in seat.port.reports():
                self._settle_term(report)
                seat.take(report, self._clock_s())
                self._note(*report.progress.events, logged=True)  # by the copier, with set and epoch
                if not seat.introduced:
                    seat.introduced = True
                    desk.ledger.adopt(seat.copier_id, report.sets)
            if seat.follows and seat.report is not None:
                # a lane that was divided off unheard is drained as a part of its old set: it counts until it is gone
                lanes = {lane.lane for lane in seat.report.progress.lanes} if desk.ledger.leaving else ()
                for set_id in desk.ledger.let_go(seat.copier_id, seat.report.held, lanes):
                    taker = desk.ledger.owner[set_id]
                    self._note(SetMoved(flow=desk.flow, set_id=set_id, giver=seat.copier_id, taker=taker))

    def _settle_term(self, report: Report) -> None:
        """Lead above every term that was heard of, but only while nobody has begun to follow this one."""
        if report.term > self.term:
            if self._leads:
                raise Replaced(self.term, report.term)
            self.term = report.term + 1
        self._leads = self._leads or report.term == self.term

    def _bury(self, desk: FlowDesk, seat: Seat) -> None:
        seat.sign(Sign.ENDED)
        last = seat.port.vital().last
        if last is not None and seat.report is not None:
            seat.take(msgspec.structs.replace(seat.report, progress=last), self._clock_s())
            self._note(*last.events, logged=True)
        self._tallies[desk.flow].bury(seat)
        self._deeds[desk.flow].lost(seat.copier_id, desk.ledger.vacate(seat.copier_id), self._clock_s())
        del desk.seats[seat.copier_id]
        self._fleet.retire(seat.port)

    def _look(self, desk: FlowDesk) -> None:
        found = self._metadata.found(desk.flow)
        self._note(*self._discovery[desk.flow].events(found, self._clock_s()))
        for topic, partitions in desk.take(found, self._clock_s()).items():
            self._note(TopicGone(flow=desk.flow, topic=topic, partitions=partitions))
        self._note(*found.events)
        if not self._draining and all(one.is_over for one in self._desks.values()):
            self.refused = next((one.taken for one in self._desks.values() if one.taken), "")
            if not self.refused:
                self.desired = Desired.STOPPED
            self.drain()

    def _drain(self, desk: FlowDesk) -> None:
        for seat in list(desk.seats.values()):
            if seat.is_new or (desk.taken and desk.is_unsure):
                # it holds nothing, and may never answer; or the flow was another's before we knew
                self._bury(desk, seat)
            elif seat.drain_asked_at_s is None:
                seat.ask_drain(self._clock_s())
            elif self._clock_s() - seat.drain_asked_at_s > self._terms.drain_s:
                late = f"did not drain in {self._terms.drain_s:.0f} s; killed"
                self._note(CopierDrainedBadly(flow=desk.flow, copier=seat.copier_id, what=late))
                self._bury(desk, seat)

    def _direct(self, desk: FlowDesk) -> None:
        for seat in desk.seats.values():
            if seat.state is CopierState.STARTING:
                continue  # it has not answered yet
            if seat.introduced:
                orders = Orders(
                    term=self.term,
                    version=0,
                    sets=None,
                    lease_s=self._terms.lease_s,
                    paused=desk.wanted.state is Desired.PAUSED,
                    paused_topics=desk.wanted.paused_topics,
                    wake=desk.wanted.wake,
                    drain=seat.drain_asked_at_s is not None,
                    unsure=desk.is_unsure,
                )
                seat.direct(orders, desk.ledger.orders_for(seat.copier_id), self._clock_s())
            else:
                lease_s = self._terms.lease_s
                seat.port.tell(Orders(term=self.term, version=0, sets=None, lease_s=lease_s, unsure=desk.is_unsure))

    def _remember(self, desk: FlowDesk) -> None:
        kept = desk.kept(self._wall_ms())
        if kept != desk.said:
            desk.said = kept
            self._metadata.keep(desk.flow, kept)

    # --- commands --------------------------------------------------------------------------------------------

    def command(self, command: Command, flow: str | None = None, topics: tuple[str, ...] = ()) -> None:
        """Note a command; the next step carries it out.

        Raises UnknownFlow, UnknownTopic, TopicsNotKnownYet, IllegalCommand.
        """
        after = desired_after(self.desired, command)
        # what is said to all is not meant for a flow that was stopped by itself
        everyone = [
            desk for desk in self._desks.values() if not desk.is_removed and desk.wanted.state is not Desired.STOPPED
        ]
        desks = [self._desk(flow)] if flow is not None else everyone
        copied = {desk.flow: desk.known_of(topics) for desk in desks}  # all is checked before anything is changed
        for topic in topics:
            if not any(topic in known for known in copied.values()):
                raise why_unknown(topic, desks)
        for desk in desks:
            if topics and not copied[desk.flow]:
                continue
            desk.command(command, copied[desk.flow])
            desk.wanted_at_ms = self._wall_ms()
            if command is not Command.STOP:
                self._note(PausedOrResumed(flow=desk.flow, command=command, topics=copied[desk.flow]))
            self._remember(desk)
        if flow is None and not topics:
            self.desired = after
        if self.desired is Desired.STOPPED:
            self.drain()

    def fail_over(self, flow: str, outcome: Outcome) -> None:
        """Stop one flow for good, its consumers having moved to the target. Raises UnknownFlow."""
        desk = self._desk(flow)
        self.command(Command.STOP, flow)
        desk.failed_over = True
        goes_on = not self._draining and any(not one.is_over for one in self._desks.values())
        self._note(FailedOver(flow=desk.flow, outcome=outcome, mirror_goes_on=goes_on))

    def restart(self, flow: str) -> None:
        """Have the copiers of a flow replaced, one by one, and what is in quarantine tried. Raises UnknownFlow."""
        desk = self._desk(flow)
        desk.release()
        for seat in desk.seats.values():
            seat.is_outdated = True

    def clear_node(self, node: str) -> int:
        """Have the copiers on a node replaced by others elsewhere; say how many are left there."""
        seats = [seat for desk in self._desks.values() for seat in desk.seats.values()]
        there = [seat for seat in seats if seat.report is not None and seat.report.node == node]
        for seat in there:
            seat.is_outdated = True
        return len(there)

    def see_edited(self, *, edited: bool) -> None:
        """Say once that the configuration file is not what it was, each time it becomes another."""
        if edited and not self._is_edited:
            for flow in self._desks:
                self._note(ConfigEdited(flow=flow, path=self.identity.config_path))
        self._is_edited = edited

    def drain(self) -> None:
        """End the copying in order, whatever is wanted afterwards."""
        self._draining = True
        for desk in self._desks.values():
            desk.mirror_ends = True

    @property
    def is_drained(self) -> bool:
        """Whether every copier is gone after `drain` or a stop."""
        return self._draining and not any(desk.seats for desk in self._desks.values())

    def _desk(self, flow: str) -> FlowDesk:
        for name, desk in self._desks.items():
            if str(name) == flow:
                return desk
        raise UnknownFlow(flow, tuple(str(name) for name in self._desks))

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
            flows=tuple(tally.status() for tally in self._tallies.values()),
            copiers=tuple(copier for tally in self._tallies.values() for copier in tally.copiers()),
            events=tuple(self._events),
            refused=self.refused,
            lanes=tuple(lane for tally in self._tallies.values() for lane in tally.lanes()) if lanes else (),
            topics=tuple(one for tally in self._tallies.values() for one in tally.topics()) if lanes else (),
            spark=self._spark.status() if self._spark is not None else SparkStatus(),
            proofs={
                flow: proof if lanes else msgspec.structs.replace(proof, lanes=())
                for flow, proof in self._proofs().items()
            },
        )

    def _phase(self) -> str:
        if self._draining:
            return "stopped" if self.is_drained else "draining"
        seats = [seat for desk in self._desks.values() for seat in desk.seats.values()]
        if self._has_begun() and any(seat.state is CopierState.READY for seat in seats):
            return "running"
        # a cluster that does not answer, or whatever else keeps all flows from their first discovery
        waits = not self._has_begun() and any(desk.failure for desk in self._desks.values())
        return "waiting" if waits else "starting"

    def _has_begun(self) -> bool:
        """Whether some flow has discovered its topics, or was adopted with its lanes."""
        return any(desk.serial or next(desk.lanes(), None) is not None for desk in self._desks.values())

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
