"""The supervisor's reports: lag, rates, events, a status that crosses processes."""

import msgspec
import pytest
from msgspec.structs import replace

from actors.control.ports import CopierVitals
from actors.model.status import decode_status, encode_status
from engine.core.events.events import SourceGap, TopicCreated
from engine.core.reports.progress import FlowProgress
from engine.core.reports.source_end import END_LASTS_MS, UNREACHED_END_LASTS_MS
from policies.model import TopicPartition
from tests.unit.actors.fakes import FLOW, Clock, FakeFleet, lanes, make
from tests.unit.actors.mirrors import started


def test_lag_is_known_only_when_every_lane_told_it(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    a0, a1 = lanes("a", 2)
    b0 = lanes("b", 1)[0]
    fleet.copiers[0].at = {a0: (5, 10), a1: (10, 10), b0: (-1, -1)}
    supervisor.step()
    flow = supervisor.status().flows[0]
    assert (flow.lag_records, flow.least_lag_records, flow.unknown_lanes, flow.lanes) == (None, 5, 1, 3)
    assert (flow.lag_bytes, flow.is_lag_known) == (None, False)
    fleet.copiers[0].at[b0] = (3, 3)
    fleet.copiers[0].at[a0] = (10, 10)
    supervisor.step()
    flow = supervisor.status().flows[0]
    assert (flow.lag_records, flow.unknown_lanes) == (0, 0)


def test_before_the_first_discovery_no_lag_is_known(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    supervisor.step()
    flow = supervisor.status().flows[0]
    assert (flow.lanes, flow.lag_records, flow.lag_bytes, flow.is_lag_known) == (0, None, None, False)


def test_a_flow_whose_source_has_been_silent_has_no_lag_but_what_it_was(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    a0, a1 = lanes("a", 2)
    b0 = lanes("b", 1)[0]
    fleet.copiers[0].at = {a0: (5, 10), a1: (10, 10), b0: (3, 3)}
    ages = {a0: 400, a1: END_LASTS_MS + 2000, b0: END_LASTS_MS + 1000}

    def aged(progress: FlowProgress) -> FlowProgress:
        by_name = {name.source: age_ms for name, age_ms in ages.items()}
        found = tuple(replace(lane, source_end_age_ms=by_name[lane.lane]) for lane in progress.lanes)
        return replace(progress, lanes=found)

    fleet.copiers[0].adjust = aged
    supervisor.step()
    flow = supervisor.status().flows[0]
    assert (flow.lag_records, flow.lag_bytes, flow.unknown_lanes) == (None, None, 2)
    assert (flow.least_lag_records, flow.source_end_age_ms, flow.is_silent) == (5, END_LASTS_MS + 2000, True)
    ages |= {a1: 100, b0: 100}
    supervisor.step()
    flow = supervisor.status().flows[0]
    assert (flow.lag_records, flow.unknown_lanes, flow.source_end_age_ms, flow.is_silent) == (5, 0, 400, False)


def test_a_source_that_cannot_be_reached_is_not_believed_for_as_long_as_one_that_can(
    fleet: FakeFleet, clock: Clock
) -> None:
    supervisor = started(fleet, clock)
    age_ms = UNREACHED_END_LASTS_MS

    def cut_off(progress: FlowProgress) -> FlowProgress:
        cut = {"source_reached": False, "source_end_age_ms": age_ms}
        return replace(progress, lanes=tuple(replace(lane, **cut) for lane in progress.lanes))

    fleet.copiers[0].adjust = cut_off
    supervisor.step()
    flow = supervisor.status().flows[0]
    assert (flow.lag_records, flow.unknown_lanes, flow.silent_lanes, flow.is_silent) == (0, 0, 0, False)
    age_ms += 1
    supervisor.step()
    flow = supervisor.status().flows[0]
    assert (flow.lag_records, flow.unknown_lanes, flow.silent_lanes, flow.is_silent) == (None, 3, 3, True)

    def one_cut_off(progress: FlowProgress) -> FlowProgress:
        first, *others = cut_off(progress).lanes
        known = [replace(lane, source_reached=True, source_end_age_ms=END_LASTS_MS) for lane in others]
        return replace(progress, lanes=(first, *known))

    fleet.copiers[0].adjust = one_cut_off
    supervisor.step()
    flow = supervisor.status().flows[0]
    assert (flow.silent_lanes, flow.source_end_age_ms) == (1, age_ms), "the age of what is silent, not of another one"


def test_rates_follow_the_counters(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    lane = lanes("a", 1)[0]
    for second in range(1, 10):
        clock.seconds += 1
        fleet.copiers[0].at[lane] = (second * 1000, 10_000)
        supervisor.step()
    flow = supervisor.status().flows[0]
    assert flow.records_per_s == pytest.approx(1000)
    assert flow.bytes_per_s == pytest.approx(100_000)


def test_events_arrive_once_from_both_sides_and_are_bounded(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = make(fleet, clock)
    created = TopicCreated(flow=FLOW, topic="a", target="A.a", partitions=1)
    fleet.discover(*lanes("a", 1), events=(created,))
    supervisor.step()
    copier = fleet.copiers[0]
    copier.life = CopierVitals(state="ready")
    copier.events.append(SourceGap(flow=FLOW, lane=TopicPartition("a", 0), first=1, last=9, cause="retention"))
    supervisor.step()
    supervisor.step()
    texts = [event.text for event in supervisor.status().events]
    assert len(texts) == 2
    assert texts[0] == created.text()
    assert "source offsets 1 to 9 are gone" in texts[1]
    for number in range(600):
        copier.events.append(TopicCreated(flow=FLOW, topic="a", target="A.a", partitions=number))
    supervisor.step()
    assert len(supervisor.status().events) == 500


def test_what_a_copier_waits_for_is_what_its_flow_waits_for(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    away = "cluster 'B': cannot connect: refused"
    fleet.copiers[0].adjust = lambda progress: msgspec.structs.replace(progress, waits_for=away)
    supervisor.step()
    assert supervisor.status().flows[0].waiting_for == away
    fleet.copiers[0].adjust = lambda progress: progress
    supervisor.step()
    assert supervisor.status().flows[0].waiting_for == ""


def test_a_status_crosses_processes(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = started(fleet, clock)
    status = supervisor.status(lanes=True)
    assert len(status.lanes) == 3
    assert decode_status(encode_status(status)) == status
