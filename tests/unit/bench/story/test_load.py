"""The load: what was acknowledged, what was only sent, and its three ends."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from bench.recovery.records import decode_record
from bench.story import load as module
from bench.story.judging import Stint
from bench.story.load import Load, LoadSpec, run


class FakeProducer:
    """A broker that acknowledges records when it is polled, in order, up to a number; the others when it is flushed."""

    def __init__(self, most: int = 10**9, error: str | None = None) -> None:
        self.sent: list[tuple[int, int]] = []
        self._waiting: list[Callable[..., None]] = []
        self._most, self._error = most, error

    def produce(self, _topic: str, value: bytes, *, partition: int, on_delivery: Callable[..., None]) -> None:
        self.sent.append((partition, decode_record(value)[1]))
        self._waiting.append(on_delivery)

    def poll(self, _seconds: float) -> None:
        answered, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        self._most -= len(answered)
        for one in answered:
            one(self._error, None)

    def flush(self, seconds: float) -> int:
        self._most = 10**9
        self.poll(seconds)
        return 0


@pytest.fixture
def spec(tmp_path: Path) -> LoadSpec:
    return LoadSpec(
        bootstrap="",
        topic="t",
        partitions=2,
        per_s=1_000_000,
        first=7,
        gate=str(tmp_path / "gate"),
        alive=str(tmp_path / "alive"),
    )


def told(capsys: pytest.CaptureFixture[str]) -> Stint:
    return msgspec.convert(json.loads(capsys.readouterr().out.splitlines()[-1]), Stint, strict=False)


def test_records_go_to_all_partitions_in_turn(spec: LoadSpec) -> None:
    producer = FakeProducer(most=3)
    load = Load(spec, producer)
    load.send(5)
    assert producer.sent == [(0, 7), (1, 7), (0, 8), (1, 8), (0, 9)]
    assert not load.has_started
    producer.poll(0)
    assert load.has_started
    assert (load.stint.acknowledged, load.stint.offered) == ({0: 9, 1: 8}, {0: 10, 1: 9})
    assert load.stint.records == 3
    assert load.stint.ended_s > 0


@pytest.mark.parametrize("word", ["end", ""])
def test_an_end_waits_for_every_acknowledgement(
    spec: LoadSpec, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = iter([""] * 3 + [word])

    def hear() -> str:
        said = next(words, "")
        if not said and not word:
            Path(spec.gate).touch()
        return said

    monkeypatch.setattr(module, "_word", hear)
    producer = FakeProducer(most=1)
    run(spec, producer)
    stint = told(capsys)
    assert stint.acknowledged == stint.offered
    assert stint.records == len(producer.sent) > 0


def test_a_crash_waits_for_nothing(
    spec: LoadSpec, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = iter(["", "", "crash"])
    monkeypatch.setattr(module, "_word", lambda: next(words))
    run(spec, FakeProducer(most=1))
    stint = told(capsys)
    assert stint.records == 1
    assert sum(stint.offered.values()) > 15


def test_a_refused_record_ends_the_load_with_an_error(spec: LoadSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    words = iter(["", "", "end"])
    monkeypatch.setattr(module, "_word", lambda: next(words))
    with pytest.raises(RuntimeError, match=r"refused: \['record 7 of partition 0: too large"):
        run(spec, FakeProducer(error="too large"))
