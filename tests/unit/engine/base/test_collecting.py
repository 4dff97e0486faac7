"""When full collections of garbage run. Python's collector is the process's own, so a fake records the calls."""

import pytest

from engine.base import clock, collecting
from engine.base.collecting import QuietCollector, spare_what_lasts


class Collector:
    """Python's collector, as far as it is used."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.threshold = (700, 10, 10)
        self.count = (0, 0, 0)

    def collect(self) -> None:
        self.calls.append("collect")
        self.count = (0, 0, 0)

    def freeze(self) -> None:
        self.calls.append("freeze")

    def unfreeze(self) -> None:
        self.calls.append("unfreeze")

    def set_threshold(self, *threshold: int) -> None:
        self.threshold = threshold  # type: ignore[assignment] # three of them

    def get_threshold(self) -> tuple[int, int, int]:
        return self.threshold

    def get_count(self) -> tuple[int, int, int]:
        return self.count


@pytest.fixture
def gc(monkeypatch: pytest.MonkeyPatch) -> Collector:
    fake = Collector()
    monkeypatch.setattr(collecting, "gc", fake)
    return fake


def passes(collector: QuietCollector, *quiet: bool) -> None:
    for is_quiet in quiet:
        collector.notice(is_quiet=is_quiet)


def test_what_lasts_is_collected_once_and_no_full_collection_starts_by_itself(gc: Collector) -> None:
    spare_what_lasts()
    assert gc.calls == ["collect", "freeze"]
    assert gc.threshold[2] > 100_000


def test_a_collection_waits_for_quiet_passes_in_a_row_and_for_something_to_collect(gc: Collector) -> None:
    spare_what_lasts()
    gc.calls.clear()
    collector = QuietCollector()
    passes(collector, *[True] * 10)
    assert gc.calls == [], "nothing was created"
    gc.count = (0, 0, 50)
    passes(collector, False, True, True, False, True, True)
    assert gc.calls == []
    passes(collector, True)
    assert gc.calls == ["collect", "freeze"], "what it left alive is not visited again"
    passes(collector, True, True, True)
    assert gc.calls == ["collect", "freeze"]


async def test_at_long_intervals_a_quiet_moment_has_everything_collected(gc: Collector) -> None:
    spare_what_lasts()
    gc.calls.clear()
    collector = QuietCollector()
    await clock.pause(601.0)
    gc.count = (0, 0, 50)
    passes(collector, False)
    assert gc.calls == ["collect", "freeze"], "a busy copier does not wait for all it has"
    gc.count = (0, 0, 50)
    passes(collector, True, True, True)
    assert gc.calls == ["collect", "freeze", "unfreeze", "collect", "freeze"]
    gc.count = (0, 0, 50)
    passes(collector, True)
    assert gc.calls[5:] == ["collect", "freeze"]


async def test_a_copier_that_is_never_quiet_collects_at_long_intervals(gc: Collector) -> None:
    spare_what_lasts()
    gc.calls.clear()
    collector = QuietCollector()
    gc.count = (0, 0, 50)
    passes(collector, False)
    assert gc.calls == []
    await clock.pause(601.0)
    passes(collector, False)
    assert gc.calls == ["collect", "freeze"]
    gc.count = (0, 0, 50)
    passes(collector, False)
    assert gc.calls == ["collect", "freeze"]


def test_a_process_whose_collector_is_pythons_own_is_left_alone(gc: Collector) -> None:
    gc.count = (0, 0, 50)
    passes(QuietCollector(), *[True] * 10)
    assert gc.calls == []
