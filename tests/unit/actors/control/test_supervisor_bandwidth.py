"""The parts of a limit that copiers get with their orders: no new version, no replaced copier."""

import msgspec

from actors.control.flow_state import FlowPlan
from actors.control.ports import CopierVitals
from actors.control.supervisor import Supervisor
from engine.core.reports.progress import FlowProgress
from policies.placement.bandwidth_shares import BandwidthUse
from policies.placement.scaling import ScalingLimits
from policies.traffic import TrafficRules, parse_bandwidth, parse_priorities
from tests.unit.actors.fakes import FLOW, SPEC, Clock, FakeCopier, FakeFleet, by_topic, lanes, ports
from tests.unit.actors.mirrors import advance


def plan(*bandwidth: str, priorities: tuple[str, ...] = ()) -> FlowPlan:
    rules = TrafficRules(parse_bandwidth(bandwidth), parse_priorities(priorities))
    return FlowPlan(name=FLOW, scaling=ScalingLimits(minimum=2, maximum=2), fingerprint="r1", traffic=rules)


def two(fleet: FakeFleet, clock: Clock, flow: FlowPlan) -> Supervisor:
    """A mirror with two copiers, each with a topic."""
    supervisor = Supervisor(SPEC, [flow], ports(fleet, clock), by_topic)
    fleet.discover(*lanes("a", 1), *lanes("b", 1))
    supervisor.step()
    for copier in fleet.copiers:
        copier.life = CopierVitals(state="ready")
    advance(supervisor, clock, 3)
    return supervisor


def parts(fleet: FakeFleet) -> list[list[int]]:
    """Return what each copier was told last."""
    told = [copier.told_traffic or TrafficRules() for copier in fleet.copiers]
    return [[rule.bytes_per_s for rule in rules.bandwidth] for rules in told]


def uses(copier: FakeCopier, **by_pattern: BandwidthUse) -> None:
    used = {pattern.removeprefix("flow"): use for pattern, use in by_pattern.items()}

    def adjust(progress: FlowProgress) -> FlowProgress:
        return msgspec.structs.replace(progress, bandwidth=used)

    copier.adjust = adjust


def test_a_limit_is_divided_and_follows_what_copiers_use(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = two(fleet, clock, plan("1600"))
    assert parts(fleet) == [[800], [800]]
    versions = [copier.orders.version for copier in fleet.copiers]
    uses(fleet.copiers[0], flow=BandwidthUse(800.0, held=True))
    advance(supervisor, clock, 2)
    assert parts(fleet) == [[1550], [50]]
    assert [copier.orders.version for copier in fleet.copiers] == versions, "the sets are not sent again"
    uses(fleet.copiers[1], flow=BandwidthUse(50.0, held=True))
    advance(supervisor, clock, 2)
    assert parts(fleet) == [[800], [800]]


def test_a_reload_changes_limits_and_classes_and_no_copier(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = two(fleet, clock, plan())
    versions = [copier.orders.version for copier in fleet.copiers]
    assert parts(fleet) == [[], []]
    supervisor.reconfigure(SPEC, [plan("1000", priorities=("a@high",))])
    advance(supervisor, clock, 2)
    assert parts(fleet) == [[500], [500]]
    assert all(one.told_traffic is not None and one.told_traffic.priorities for one in fleet.copiers)
    supervisor.reconfigure(SPEC, [plan()])
    advance(supervisor, clock, 2)
    assert parts(fleet) == [[], []]
    assert [copier.orders.version for copier in fleet.copiers] == versions
    assert len(fleet.copiers) == 2


def test_a_copier_that_ended_leaves_its_part_to_others(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = two(fleet, clock, plan("1000"))
    fleet.copiers[1].life = CopierVitals(state="dead", cause="killed")
    advance(supervisor, clock, 2)
    assert parts(fleet)[0] == [1000], "the one that starts has no lease, and gets nothing yet"


def test_a_pause_still_counts_as_heeded_while_parts_change(fleet: FakeFleet, clock: Clock) -> None:
    supervisor = two(fleet, clock, plan("1000"))
    for used in range(1, 4):
        uses(fleet.copiers[0], flow=BandwidthUse(100.0 * used))
        advance(supervisor, clock, 1)
        assert supervisor.status().flows[0].heeded
