"""The ends of `latency` around clients in memory, and its figures."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from bench.errors import BenchError
from bench.latency import consume, produce
from bench.latency.command import Latency, Load
from bench.latency.judge import BROKER, QUANTILES, faults, judge, rows, summary
from bench.latency.stalls import counts_of, stalls
from bench.latency.stamped import RECORD_BYTES, Plan, decode, encode

PLAN = Plan(bootstrap="h:1", topic="t", partitions=2, per_s=1000, warm_up_s=0.01, measured_s=0.1)
NONE_LOST = {"lost": 0, "doubled": 0, "reordered": 0}


class Message:
    """A message as the client gives it."""

    def __init__(self, partition: int, value: bytes) -> None:
        self._partition, self._value = partition, value

    def error(self) -> None:
        return None

    def partition(self) -> int:
        return self._partition

    def value(self) -> bytes:
        return self._value


class Sender:
    """A producer into memory; the third record is refused."""

    def __init__(self) -> None:
        self.messages = [Message(partition, b"first") for partition in range(PLAN.partitions)]

    def produce(self, _topic: str, value: bytes, *, partition: int, on_delivery: Callable[[Any, Any], None]) -> None:
        self.messages.append(Message(partition, value))
        on_delivery("refused" if len(self.messages) == 5 else None, None)

    def poll(self, _timeout_s: float) -> int:
        return 0

    def flush(self, _timeout_s: float) -> int:
        return 0


class Reader:
    """A consumer of messages in memory."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    def poll(self, _timeout_s: float) -> Message | None:
        return self._messages.pop(0) if self._messages else None


def figures(**changes: Any) -> dict[str, Any]:
    return {**dict.fromkeys(QUANTILES, 1.0), **NONE_LOST, "cpu_percent": 5.0, "why": "text", **changes}


def test_a_record_has_its_number_its_instant_and_the_size_of_all() -> None:
    assert decode(encode(7, 10**15)) == (7, 10**15)
    assert len(encode(7, 10**15)) == RECORD_BYTES
    assert decode(b"first") is None


def test_the_plan_counts_the_records_before_and_after_the_warm_up() -> None:
    assert (PLAN.unmeasured, PLAN.records) == (10, 110)


@pytest.mark.local  # each record is sent when it is due
def test_records_pass_from_one_end_to_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    sender = Sender()
    sent = msgspec.structs.replace(PLAN, per_s=100_000, warm_up_s=0.0001, measured_s=0.001)
    produced = produce.produce(sent, sender)
    assert "began" in json.loads(capsys.readouterr().out)
    assert (produced["sent"], produced["failed"], produced["why"]) == (110, 1, "refused")
    reader = Reader(sender.messages)
    consume.wait_ready(sent, reader)
    found = consume.consume(sent, reader)
    assert (found["records"], found["lost"], found["doubled"], found["reordered"]) == (100, 0, 0, 0)
    assert 0 <= found["p50_ms"] <= found["p99_ms"] <= found["max_ms"]
    assert faults(found, produced) == "1 records not sent: refused"
    assert faults(found, {"failed": 0}) == ""


def test_what_is_missing_comes_twice_or_late_is_told() -> None:
    plan = msgspec.structs.replace(PLAN, per_s=40, warm_up_s=0.0, measured_s=0.1)
    found = consume.consume(plan, Reader([Message(0, encode(number, 0)) for number in (0, 2, 2, 1)]))
    assert (found["lost"], found["doubled"], found["reordered"]) == (1, 1, 2)
    assert faults(found, {"failed": 0}) == "1 records lost, 1 records doubled, 2 records reordered"


def test_quantiles_leave_out_the_warm_up() -> None:
    took = np.full(PLAN.records, 2_000_000, dtype=np.int64)
    took[: PLAN.unmeasured] = 10**12
    found = judge(PLAN, took, np.ones(PLAN.records, dtype=np.int64), 0)
    assert {found[name] for name in QUANTILES} == {2.0}


def test_a_system_is_compared_with_the_broker_of_its_own_round() -> None:
    runs = {
        BROKER: [figures(p99_ms=4.0), figures(p99_ms=40.0), figures(p99_ms=5.0)],
        "raymirror": [figures(p99_ms=6.0), figures(p99_ms=41.0), figures(p99_ms=8.0)],
    }
    found = summary(runs)
    assert found["raymirror"]["p99_ms"] == 8.0
    assert found["raymirror"]["above"]["p99_ms"] == 2.0
    assert "above" not in found[BROKER]
    assert len(found[BROKER]["runs"]) == 3
    table = rows(2000, found)
    assert len(table) == 5
    assert "above broker" in table[-1]


def test_a_producer_lingers_as_long_as_the_plan_says() -> None:
    assert produce.settings(PLAN)["linger.ms"] == 0
    assert produce.settings(msgspec.structs.replace(PLAN, linger_ms=2.5))["linger.ms"] == 2.5


def test_only_rounds_with_figures_of_every_system_count() -> None:
    cluster: Any = SimpleNamespace(bootstrap_servers="h:1")
    bench = Latency(cluster, cluster, None, Load(4, 1.0, 1.0, 0.0))  # type: ignore[arg-type]
    with pytest.raises(BenchError, match="no round"):
        bench.runs_of(2000, ["a", "b"])
    bench._rounds = [("a", {2000: figures()}), ("b", {}), ("b", {2000: figures(p50_ms=7.0)}), ("a", {2000: figures()})]
    found = bench.runs_of(2000, ["a", "b"])
    assert [one["p50_ms"] for one in found["b"]] == [7.0]
    assert len(found["a"]) == 1


@pytest.mark.parametrize("fails", [True, False])
def test_what_warms_the_clusters_up_has_no_figures(monkeypatch: pytest.MonkeyPatch, *, fails: bool) -> None:
    cluster: Any = SimpleNamespace(bootstrap_servers="h:1")
    bench = Latency(cluster, cluster, None, Load(4, 1.0, 1.0, 0.0))  # type: ignore[arg-type]

    def measured(system: str, _rates: list[int]) -> None:
        bench._rounds.append((system, {2000: figures()}))
        if fails:
            raise BenchError(system, "did not copy")

    monkeypatch.setattr(bench, "measure", measured)
    with pytest.raises(BenchError) if fails else nullcontext():
        bench.warm("a", [2000])
    with pytest.raises(BenchError, match="no round"):
        bench.runs_of(2000, ["a"])


def test_stalls_of_a_run_are_those_between_two_pages_of_one_flow() -> None:
    page = "\n".join(
        f'raymirror_loop_stall_seconds_bucket{{flow="A->B",le="{bound}"}} {count}'
        for bound, count in (("0.0005", 90), ("0.001", 95), ("0.002", 100), ("+Inf", 100))
    )
    counts = counts_of(f"# HELP x\n{page}\nraymirror_loop_stall_seconds_count 100\n")
    assert counts == [90, 5, 5, 0]
    assert stalls([0, 0, 0, 0], counts) == {"stall_p99_ms": 1.8, "stall_p99.9_ms": 1.98}
    assert stalls(counts, counts) == {}
    with pytest.raises(ValueError, match="not those of one flow"):
        counts_of(f"{page}\n{page}")
    with pytest.raises(ValueError, match="0 buckets"):
        counts_of("")
