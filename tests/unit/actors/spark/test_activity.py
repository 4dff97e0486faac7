"""The active flows, and how often that is checked."""

import msgspec

from actors.spark.activity import INTERVAL_S, ActivityMonitor
from engine.core.reports.progress import LaneProgress, unowned
from policies.model import FlowName, LaneName, TopicPartition

FLOW, OTHER = FlowName("A", "B"), FlowName("A", "C")


def lane(topic: str = "t", *, records: int = 0, lag: int = 0) -> LaneProgress:
    name = LaneName(TopicPartition(topic, 0), TopicPartition(f"A.{topic}", 0))
    known = unowned(name, "s", 1, "")
    return msgspec.structs.replace(known, records=records, source_next=100, source_end=100 + lag)


class Checks:
    """Checks as far apart as they are made."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.monitor = ActivityMonitor()

    def check(self, *lanes: LaneProgress, after_s: float = INTERVAL_S) -> list[FlowName]:
        self.now_s += after_s
        return self.monitor.active_flows([(FLOW, lanes)], self.now_s)


def test_a_flow_is_active_while_it_copies() -> None:
    checks = Checks()
    assert checks.check(lane()) == []
    assert checks.check(lane(records=5), lane("u")) == [FLOW]
    assert checks.check(lane(records=5), lane("u")) == []
    assert checks.check(lane(records=5), lane("u", records=1)) == [FLOW]


def test_a_flow_that_is_behind_or_of_unknown_lag_is_active() -> None:
    checks = Checks()
    silent = msgspec.structs.replace(lane(), source_end_age_ms=3_600_000)
    for still in (lane(lag=1), silent):
        assert checks.check(still) == checks.check(still) == [FLOW]


def test_heartbeats_do_not_count() -> None:
    checks = Checks()
    assert checks.check(lane("heartbeats", records=1), lane("Z.heartbeats", records=7, lag=1)) == []


def test_it_checks_every_few_seconds_and_each_flow_by_itself() -> None:
    checks = Checks()
    assert checks.check(lane(lag=1), after_s=0.0) == [FLOW]
    assert checks.check(lane(lag=1), after_s=INTERVAL_S / 2) == []
    checks.now_s += INTERVAL_S
    assert checks.monitor.active_flows([(FLOW, [lane()]), (OTHER, [lane(records=3)])], checks.now_s) == [OTHER]
