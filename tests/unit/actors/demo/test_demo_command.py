"""`raymirror demo`: its output for people, and one object on standard output with `--json`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors.cli import main
from actors.cli.common import exits
from actors.demo import play, stage
from actors.demo.answers import SqlResult
from actors.demo.digest import PartitionVerdict
from actors.demo.outcome import DemoOutcome
from actors.demo.spark_part import SparkOutcome, SparkProof
from actors.observability.view import View

GOOD = PartitionVerdict(topic="clicks", partition=0, records=7, payload_bytes=70, difference="")
SHOWN = SparkOutcome(
    proof=SparkProof(whole=True, partitions=2, records=14, differences=0, took_s=3.0),
    answers=(
        SqlResult("How many?", "SELECT 7 AS seven, 'x' AS name", ("seven", "name"), ("BIGINT", "VARCHAR"), ((7, "x"),)),
    ),
    report="/tmp/raymirror-demo-1.html",
)


class Demo:
    """A demo that was played with this outcome."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, spark: SparkOutcome, difference: str = "") -> None:
        verdict = PartitionVerdict(topic="clicks", partition=1, records=7, payload_bytes=70, difference=difference)
        self.outcome = DemoOutcome(verdicts=(GOOD, verdict), wire_bytes=1, copy_s=2.0, proof_s=1.0, spark=spark)
        self.is_kept, self.asked = False, dict[str, Any]()
        monkeypatch.setattr(stage, "open_stage", self.opened)
        monkeypatch.setattr(play, "play", self.play)

    @contextmanager
    def opened(self, view: View, keep: bool) -> Iterator["Demo"]:
        view.say("starting")
        self.is_kept = keep
        yield self

    def keep(self) -> None:
        self.is_kept = True

    def play(self, *_words: Any, **asked: Any) -> DemoOutcome:
        self.asked = asked
        return self.outcome


@pytest.mark.parametrize(("difference", "code"), [("", exits.OK), ("one record is missing", exits.FAILED)])
def test_json_is_one_object(
    difference: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = Demo(monkeypatch, SHOWN, difference)
    assert main.main(["demo", "--json"]) == code
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["whole"] == (not difference)
    assert [one["partition"] for one in found["partitions"]] == [0, 1]
    spark = found["spark"]
    assert (spark["left_out"], spark["trouble"], spark["report"]) == ("", "", SHOWN.report)
    assert spark["proof"]["records"] == 14
    (answer,) = spark["answers"]
    assert (answer["asks"], answer["rows"]) == ("How many?", [{"seven": 7, "name": "x"}])
    assert "starting" in err
    assert demo.asked == {"spark": True}
    assert demo.is_kept == bool(difference)


def test_people_get_the_table_the_answers_and_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Demo(monkeypatch, SHOWN)
    assert main.main(["demo"]) == exits.OK
    out = capsys.readouterr().out
    assert "2 of 2 partitions identical" in out
    assert "Spark proved the same 14 records of 2 partitions" in out
    assert [line.split() for line in out.partition("How many?")[2].splitlines()[1:3]] == [["seven", "name"], ["7", "x"]]
    assert out.endswith(f"{SHOWN.report}\n")


def test_without_spark_nothing_is_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    demo = Demo(monkeypatch, SparkOutcome(left_out="--no-spark"))
    assert main.main(["demo", "--no-spark"]) == exits.OK
    assert demo.asked == {"spark": False}
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "Spark was left out: --no-spark"


def test_a_spark_that_failed_fails_the_demo_and_its_logs_are_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = Demo(monkeypatch, SparkOutcome(failure="Spark of mirror demo is refused (no place)"))
    assert main.main(["demo"]) == exits.FAILED
    assert demo.is_kept
    assert capsys.readouterr().out.splitlines()[-1] == "Spark FAILED: Spark of mirror demo is refused (no place)"
