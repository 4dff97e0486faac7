"""Logs that the config sync bench reads: brokers' requests, MM2's rounds."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from bench.configsync import mirror
from bench.configsync.mm2 import rounds
from bench.configsync.requests import counted, within
from bench.errors import BenchError


def line(kind: str, client: str = "raymirror-apply", *, forwarded: bool = False, request: Any = None) -> str:
    header = {"requestApiKeyName": kind, "clientId": client}
    one = {"isForwarded": forwarded, "requestHeader": header, "request": request or {}}
    return f"[2026-11-21T21:40:00,123] DEBUG Completed request:{json.dumps(one)} (kafka.request.logger)\n"


def test_requests_are_counted_by_kind_without_the_benchs_own_and_once_where_they_are_handed_on() -> None:
    altered = {"resources": [{"configs": [{"name": "a"}, {"name": "b"}]}, {"configs": [{"name": "a"}]}]}
    found = counted(
        [
            "[2026-11-21T21:40:00,123] INFO something else\n",
            line("FETCH"),
            line("METADATA"),
            line("METADATA", "aiokafka-0.14.0"),
            line("DESCRIBE_CONFIGS"),
            line("DESCRIBE_CONFIGS", "adminclient-1"),
            line("INCREMENTAL_ALTER_CONFIGS", request=altered),
            line("INCREMENTAL_ALTER_CONFIGS", forwarded=True, request=altered),
        ],
        ["raymirror"],
    )
    assert found == {
        "metadata": 1,
        "describe_configs": 1,
        "incremental_alter_configs": 1,
        "describe_acls": 0,
        "create_acls": 0,
        "altered_topics": 2,
        "altered_configs": 3,
    }


def test_a_line_that_is_cut_short_is_no_figure() -> None:
    with pytest.raises(BenchError, match="cannot be read"):
        counted([line("METADATA")[:-35]], ["raymirror"])


def test_lines_of_requests_go_by_the_moment_they_were_served() -> None:
    lines = [line("FETCH").replace(",123]", f",{ms}]") for ms in (100, 200, 300)]
    at_s = datetime.fromisoformat("2026-11-21T21:40:00").timestamp()
    other = "[2026-11-21T21:40:00,200] INFO something else\n"
    assert list(within([*lines, other, "no stamp\n"], at_s + 0.2, at_s + 0.3)) == lines[1:2]


def test_rounds_of_mm2_are_read_from_its_log() -> None:
    log = (
        "[2026-11-21T21:40:00,100] INFO syncing topic configs took 1500 ms (org.apache...Scheduler)\n"
        "[2026-11-21T21:40:00,200] INFO refreshing topics took 7 ms (org.apache...Scheduler)\n"
        "[2026-11-21T21:40:20,350] INFO syncing topic configs took 250 ms (org.apache...Scheduler)\n"
    )
    one, other = rounds(log)
    assert one.ended_s - one.began_s == pytest.approx(1.5)
    assert other.began_s - one.began_s == pytest.approx(21.5)


def status(at_ms: int, by: str, round_s: float = 0.5) -> str:
    configs = {"at_ms": at_ms, "round_s": round_s, "by": by, "not_spark": "" if by == "spark" else "starting"}
    return json.dumps({"flows": [{"configs": configs}]}) + "\n"


def test_rounds_of_a_mirror_are_read_from_its_statuses(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    first, second = status(10_000, "loop"), status(20_000, "spark", 4.0)
    nothing = json.dumps({"flows": []}) + "\n", json.dumps({"flows": [{"configs": None}]}) + "\n"
    log.write_text("".join([*nothing, "Ray is starting\n", first, first, second, second, status(30_000, "spark")[:-9]]))
    spark = mirror.Rounds(log, "spark")
    one = spark.next_after(0.0, 1.0)
    assert (one.began_s, one.ended_s, one.by) == (16.0, 20.0, "spark")
    assert mirror.Rounds(log, "loop").next_after(0.0, 1.0).not_spark == "starting"
    assert (spark.count_since(0.0), spark.count_since(25.0)) == (1, 1), "a line that is not whole yet is no round"
    with pytest.raises(BenchError, match="planned by spark within 0 s"):
        spark.next_after(17.0, 0.0)
