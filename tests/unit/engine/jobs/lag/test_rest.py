"""When the lag query waits after a batch, and for how long."""

from typing import Any

import pyarrow as pa
import pytest

from engine.jobs.lag.options import LagOptions
from engine.jobs.lag.rest import COLUMNS, rest_s
from policies.model import FlowName

FLOW = FlowName("A", "B")
NOW_MS = 1_800_000_000_000
STILL = {
    "window_start_ms": NOW_MS - 20_000,
    "topic": "t",
    "records": 0,
    "lag_records_max": 0,
    "last_ms": NOW_MS - 2_000,
}
COPIER = {**STILL, "topic": "", "records": 3, "lag_records_max": None}
HEARTBEATS = {**STILL, "topic": "heartbeats", "records": 30, "lag_records_max": 1}
SCHEMA = pa.schema([(name, pa.string() if name == "topic" else pa.int64()) for name in COLUMNS])


def rest(*rows: dict[str, Any], rpo_s: float = 0.0) -> float:
    return rest_s(LagOptions(flow=FLOW, rpo_s=rpo_s), pa.Table.from_pylist(list(rows), SCHEMA), NOW_MS)


def test_where_nothing_moves_it_rests_whatever_heartbeats_and_copiers_count() -> None:
    assert rest(STILL, COPIER, HEARTBEATS) == 300.0
    assert rest(COPIER) == 300.0


@pytest.mark.parametrize(
    "changed",
    [{"records": 1}, {"lag_records_max": 1}, {"lag_records_max": None}, {"topic": "A.t", "records": 5}],
    ids=["copied", "behind", "unknown lag", "another hop"],
)
def test_one_lane_that_moves_is_behind_or_is_not_known_lets_it_not_rest(changed: dict[str, Any]) -> None:
    assert rest(STILL, {**STILL, **changed}, COPIER) == 0.0


def test_it_rests_only_where_it_has_caught_up() -> None:
    assert rest({**STILL, "last_ms": NOW_MS - 15_000}) == 300.0
    assert rest({**STILL, "last_ms": NOW_MS - 15_001}) == 0.0
    assert rest() == 0.0, "a batch without windows says nothing"


def test_no_rest_is_longer_than_the_objective() -> None:
    assert [rest(STILL, rpo_s=rpo_s) for rpo_s in (2.0, 5.0, 30.0, 600.0)] == [0.0, 0.0, 30.0, 300.0]
