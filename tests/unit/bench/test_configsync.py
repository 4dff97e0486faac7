"""Logs that the config sync bench reads: brokers' requests, MM2's rounds."""

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from bench.configsync import mirror, mm2
from bench.configsync.logged_rounds import LoggedRounds
from bench.configsync.passes import Pass, carried
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
    one, other = mm2.rounds(log.splitlines())
    assert one.ended_s - one.began_s == pytest.approx(1.5)
    assert other.began_s - one.began_s == pytest.approx(21.5)


def status(at_ms: int, by: str, round_s: float = 0.5, *, owned: bool = True) -> str:
    configs = {"at_ms": at_ms, "round_s": round_s, "by": by, "not_spark": "" if by == "spark" else "starting"}
    states = {"copying": 1, "watching": 2 if owned else 1}
    return json.dumps({"flows": [{"configs": configs, "discovered": True, "lanes": 3, "lane_states": states}]}) + "\n"


def test_rounds_of_a_mirror_are_read_from_its_statuses(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    first, second = status(10_000, "loop"), status(20_000, "spark", 4.0)
    nothing = json.dumps({"flows": []}) + "\n", json.dumps({"flows": [{"configs": None}]}) + "\n"
    log.write_text("".join([*nothing, "Ray is starting\n", first, first, second, second, status(30_000, "spark")[:-9]]))
    spark = LoggedRounds("raymirror-spark", log, mirror.RoundReader("spark"))
    loop = LoggedRounds("raymirror-loop", log, mirror.RoundReader("loop"))
    one = spark.next_after(0.0, 1.0)
    assert (one.began_s, one.ended_s, one.by) == (16.0, 20.0, "spark")
    assert loop.next_after(0.0, 1.0).not_spark == "starting"
    assert (spark.count_since(0.0), spark.count_since(25.0)) == (1, 1), "a line that is not whole yet is no round"
    with pytest.raises(BenchError, match="no round of its config sync within 0 s"):
        spark.next_after(17.0, 0.0)


def test_rounds_while_partitions_have_no_owner_are_left_out_and_lines_that_follow_are_read(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text(status(10_000, "loop", owned=False) + status(20_000, "loop") + status(30_000, "loop")[:-9])
    rounds = LoggedRounds("raymirror-loop", log, mirror.RoundReader("loop"))
    assert rounds.next_after(0.0, 1.0).ended_s == 20.0
    with log.open("a") as more:
        more.write(status(30_000, "loop")[-9:] + status(40_000, "loop", owned=False))
    assert rounds.count_since(20.0) == 3


def test_a_change_that_several_rounds_bring_counts_without_the_pauses_between_them() -> None:
    rounds = [mirror.Round(began, began + 4.0, "loop", "") for began in (0.0, 10.0, 20.0, 30.0)]
    assert carried(rounds, 5.0, 22.0).wall_s == 8.0, "it began between two rounds, and the third brought the rest"
    assert carried(rounds, 12.0, 26.0) == Pass(10.0, 26.0, 6.0), "what was asked for came two seconds after a round"
    assert carried(rounds, 5.0, 13.0).wall_s == 4.0, "one round brought it"
    with pytest.raises(BenchError, match="no round of the system had brought it"):
        carried(rounds, 5.0, 8.0)


@pytest.mark.local
def test_the_end_of_a_system_is_not_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text(status(10_000, "loop"))
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        ended.wait()
        rounds = LoggedRounds("raymirror-loop", log, mirror.RoundReader("loop"), ended)
        assert rounds.next_after(0.0, 60.0).ended_s == 10.0, "what it did before counts"
        with pytest.raises(BenchError, match="ended before a round"):
            rounds.next_after(10.0, 3600.0)
