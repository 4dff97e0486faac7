"""Medians and ratios of a bench."""

import msgspec
import pytest

from bench.dataset import Backlog
from bench.figures import TINY, Runs, medians, ratios, summary
from bench.measure import Run
from bench.watch import Settling


def make_run(wall_s: float, cpu_s: float) -> Run:
    return Run(
        wall_s=wall_s,
        cpu_s=cpu_s,
        cpu_all_s=cpu_s * 2,
        records=1000,
        logical_mib=100.0,
        wire_mib=50.0,
        target_wire_mib=50.0,
        target_batches=10,
        peak_rss_mib=10.0,
        peak_rss_all_mib=20.0,
        start_s=1.0,
        processes=3,
    )


def test_each_field_has_its_own_median_and_rates_are_per_cpu_second() -> None:
    found = medians([make_run(1, 3), make_run(3, 1), make_run(2, 2)])
    assert (found["wall_s"], found["cpu_s"], found["records"]) == (2, 2, 1000)
    assert found["logical_mib_per_cpu_s"] == 50
    assert found["logical_mib_per_cpu_all_s"] == 25
    assert found["wire_mib_per_cpu_s"] == 25
    assert [run["wall_s"] for run in found["runs"]] == [1, 3, 2]


def test_a_ratio_compares_runs_of_the_same_repeat_before_the_median() -> None:
    runs: Runs = {
        "mm2": [make_run(2, 4), make_run(100, 20), make_run(2, 9)],
        "raymirror": [make_run(1, 1), make_run(10, 10), make_run(2, 2)],
    }
    found = ratios(runs)
    assert found["raymirror/mm2 wall_s"] == 0.5
    assert found["raymirror/mm2 logical_mib_per_cpu_s"] == 4
    assert not [name for name in found if name.startswith("mm2/")]


def test_a_system_with_fewer_runs_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ratios({"raymirror": [make_run(1, 1), make_run(1, 1)], "mm2": [make_run(1, 1)]})


def test_a_repeat_in_which_one_system_failed_gives_no_ratio_and_no_median_of_it() -> None:
    runs: Runs = {"mm2": [make_run(2, 2), make_run(8, 8)], "raymirror": [None, make_run(2, 2)], "aiokafka": [None] * 2}
    backlog = Backlog(payload="p", codec="none", topic="t", counts=(1000,), batches=10, wire_bytes=100)
    found = summary(runs, backlog, TINY)
    assert found["ratios"]["raymirror/mm2 wall_s"] == 0.25
    assert list(found["systems"]) == ["mm2", "raymirror"]
    assert len(found["systems"]["raymirror"]["runs"]) == 1
    assert found["systems"]["mm2"]["records_per_target_batch"] == 100
    assert found["dataset"]["records_per_batch"] == 100


def test_memory_above_idle_is_of_the_highest_peak() -> None:
    found = summary({"raymirror": [make_run(1, 1)]}, Backlog.short("t"), idle_rss_mib={"raymirror": 4.0, "mm2": 1.0})
    assert found["systems"]["raymirror"]["rss_above_idle_mib"] == 6
    assert "mm2" not in found["systems"]


def test_runs_survive_json() -> None:
    run = make_run(1, 1)
    assert msgspec.json.decode(msgspec.json.encode(run), type=Run) == run


def test_settling_wants_a_positive_value_that_stays() -> None:
    seen = Settling(within=10, for_s=5)
    for at, value in enumerate([0, 0, 100, 105, 300, 305, 303, 299, 301]):
        seen.add(value, float(at))
        assert not seen.is_settled
    seen.add(300, 9.0)
    assert seen.is_settled
    assert seen.value == 300
