"""Medians, spreads and ratios of `bench wan`."""

from typing import Any

import msgspec

from bench.wan.figures import summary
from bench.wan.measure import WanRun

RUN = WanRun(
    mib_per_s=10.0,
    middle_mib_per_s=12.0,
    wall_s=30.0,
    records=1000,
    is_whole=False,
    cpu_s=1.0,
    cpu_all_s=2.0,
    cpu_s_per_gib=3.0,
    peak_rss_mib=150.0,
    peak_rss_all_mib=700.0,
    start_s=5.0,
    connections=11,
    carried_ratio=1.1,
    target_batch_kib=58.0,
    late_chunks=0,
    proxy_cpu_s=0.1,
)


def run(**changed: Any) -> WanRun:
    return msgspec.structs.replace(RUN, **changed)


def test_a_system_has_medians_spreads_and_every_single_run() -> None:
    found = summary({"raymirror": [run(mib_per_s=9.0), run(mib_per_s=30.0, is_whole=True), run(mib_per_s=10.0)]})
    figures = found["systems"]["raymirror"]
    assert figures["mib_per_s"] == 10.0
    assert figures["spread"]["mib_per_s"] == [9.0, 30.0]
    assert [one["mib_per_s"] for one in figures["runs"]] == [9.0, 30.0, 10.0]
    assert figures["is_whole"] is False


def test_a_ratio_is_of_runs_of_one_round() -> None:
    found = summary(
        {
            "raymirror": [run(mib_per_s=10.0), run(mib_per_s=100.0), run(mib_per_s=30.0)],
            "mm2": [run(mib_per_s=1.0), run(mib_per_s=50.0), run(mib_per_s=10.0)],
        }
    )
    assert found["ratios"]["raymirror/mm2 mib_per_s"] == 3.0


def test_a_round_in_which_one_system_failed_gives_no_ratio() -> None:
    found = summary({"raymirror": [None, run(mib_per_s=30.0)], "mm2": [run(mib_per_s=1.0), run(mib_per_s=10.0)]})
    assert found["ratios"]["raymirror/mm2 mib_per_s"] == 3.0
    assert len(found["systems"]["raymirror"]["runs"]) == 1


def test_a_system_without_a_run_has_no_figures() -> None:
    found = summary({"raymirror": [RUN], "mm2": [None]})
    assert list(found["systems"]) == ["raymirror"]
    assert found["ratios"] == {}


def test_a_middle_that_was_not_seen_gives_no_ratio() -> None:
    found = summary({"raymirror": [RUN], "mm2": [run(middle_mib_per_s=0.0)]})
    assert "raymirror/mm2 middle_mib_per_s" not in found["ratios"]
