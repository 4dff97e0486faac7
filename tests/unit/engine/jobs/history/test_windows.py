"""The history of windows: every window once, even if files are doubled, half written, compacted or deleted."""

import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.base.errors import NewerFormat
from engine.jobs.history.care import care, clear, compact, expire
from engine.jobs.history.files import HistoryCommit, HistoryDamaged, hour_of, live
from engine.jobs.history.options import CareOptions
from engine.jobs.history.windows import History
from tests.unit.engine.jobs.windows_tables import BASE_MS, HOUR_MS, add, read, row

NOW_MS = BASE_MS + 24 * HOUR_MS


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(f"file:{tmp_path}/history")


def test_nothing_is_read_of_nothing(history: History) -> None:
    assert read(history) == []
    assert care(history, CareOptions(), NOW_MS).compacted == 0


def test_windows_are_read_some_minutes_at_a_time_within_their_time(history: History) -> None:
    add(history, "g-0", [row(58), row(59), row(60), row(61)])
    add(history, "g-1", [row(2), row(4, samples=1), row(5), row(57)])
    begins = [table.column("window_start_ms").to_pylist() for table in history.windows(BASE_MS, NOW_MS)]
    assert [[(one - BASE_MS) // 60_000 for one in some] for some in begins] == [[2, 4], [5], [57, 58, 59], [60, 61]]
    assert read(history, 59, 61) == [(59, 0, 6), (60, 0, 6)]


def test_a_file_that_nobody_committed_is_not_there(history: History) -> None:
    add(history, "g-0", [row(1)])
    add(history, "g-1", [row(2)], commit=False)
    assert read(history) == [(1, 0, 6)]


def test_the_most_complete_of_a_window_counts_whatever_the_order(history: History) -> None:
    add(history, "g-1", [row(1, samples=6), row(2, samples=2)])
    add(history, "g-0", [row(1, samples=3)])
    add(history, "other-0", [row(1, samples=5), row(2, samples=4)])
    assert read(history) == [(1, 0, 6), (2, 0, 4)]


def test_only_what_is_asked_for_is_read(history: History) -> None:
    add(history, "g-0", [row(1, lag=7)])
    (table,) = history.windows(BASE_MS, NOW_MS, ["lag_records", "not there"])
    assert set(table.column_names) == {
        *("flow", "topic", "partition", "copier_key", "window_start_ms", "samples", "last_ms", "lag_records")
    }


def test_a_compaction_changes_nothing_that_is_read(history: History) -> None:
    add(history, "g-0", [row(1, samples=3), row(59)])
    add(history, "g-1", [row(1, samples=6), row(60)])
    before = read(history)
    assert compact(history, NOW_MS) == 1
    assert read(history) == before == [(1, 0, 6), (59, 0, 6), (60, 0, 6)]
    assert compact(history, NOW_MS) == 0
    add(history, "g-2", [row(2)])
    assert compact(history, NOW_MS) == 1
    assert read(history) == [(1, 0, 6), (2, 0, 6), (59, 0, 6), (60, 0, 6)]


def test_a_compaction_merges_some_minutes_at_a_time_and_reads_again_only_those(history: History) -> None:
    for number in range(3):
        add(history, f"g-{number}", [row(minute, samples=number + 1) for minute in range(0, 60, 2)])
    add(history, "empty", [row(1)][:0])
    before = read(history)
    assert compact(history, NOW_MS) == 1
    assert read(history) == before
    (file,) = live(history.files.commits().values())
    begins = BASE_MS + 10 * 60_000
    found = history.read(file, within=(begins, begins + 120_000))
    assert found.column("window_start_ms").to_pylist() == [begins]
    assert history.span(file) == (BASE_MS, BASE_MS + 58 * 60_000)


def test_a_batch_that_comes_again_after_its_compaction_doubles_nothing(history: History) -> None:
    add(history, "g-0", [row(1)])
    add(history, "g-1", [row(2)])
    compact(history, NOW_MS)
    clear(history, NOW_MS + 1)
    add(history, "g-1", [row(2)])
    assert read(history) == [(1, 0, 6), (2, 0, 6)]


def test_two_compactions_at_once_double_nothing(history: History) -> None:
    add(history, "g-0", [row(1)])
    add(history, "g-1", [row(2)])
    files = tuple(sorted(live(history.files.commits().values())))
    compact(history, NOW_MS)
    add(history, "late", [row(1), row(2)])
    late = history.files.read("late")
    assert late is not None
    history.files.commit("late", HistoryCommit(at_ms=NOW_MS, adds=late.adds, removes=files))
    assert read(history) == [(1, 0, 6), (2, 0, 6)]


def test_what_is_too_old_goes_by_whole_hours(history: History) -> None:
    add(history, "g-0", [row(1), row(60), row(120)])
    assert expire(history, BASE_MS + 90 * 60_000, NOW_MS) == 1
    assert read(history) == [(60, 0, 6), (120, 0, 6)]
    assert expire(history, BASE_MS + 90 * 60_000, NOW_MS) == 0


def test_what_counts_no_longer_is_cleared_away_after_its_grace(history: History, tmp_path: Path) -> None:
    add(history, "g-0", [row(1)])
    add(history, "g-1", [row(2)])
    add(history, "g-2", [row(3)], commit=False)
    compact(history, at := 2**41)  # files bear the present time, which is earlier
    begun = tmp_path / "history" / "data" / "batch=g-3-1" / "_temporary" / "part-0.parquet"
    begun.parent.mkdir(parents=True)
    begun.write_bytes(b"PAR1")
    assert clear(history, 1) == (0, 0)
    assert begun.exists()
    assert clear(history, at) == (0, 1)
    assert not begun.parent.parent.exists()
    assert len(list((tmp_path / "history" / "data").rglob("*.parquet"))) == 3
    assert clear(history, at + 1) == (2, 2)
    assert clear(history, at + 1) == (0, 0)
    assert sorted(name.partition("-")[0] for name in history.files.commits()) == ["compact"]
    assert len(list((tmp_path / "history" / "data").rglob("*.parquet"))) == 1
    assert read(history) == [(1, 0, 6), (2, 0, 6)]
    assert expire(history, NOW_MS, at + 1) == 1
    for _ in range(3):
        clear(history, at + 2)
    assert history.files.commits() == {}
    assert history.files.listed() == {}
    assert history.files.attempts() == {}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.integers(0, 3), st.lists(st.integers(0, 150), min_size=1, max_size=4)),
        st.tuples(st.just("half"), st.integers(0, 3), st.lists(st.integers(0, 150), min_size=1, max_size=4)),
        st.tuples(st.just("compact"), st.just(0), st.just([])),
        st.tuples(st.just("clear"), st.just(0), st.just([])),
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_whatever_happens_every_committed_window_is_read_once(
    steps: list[tuple[str, int, list[int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    history = History(f"file:{tmp_path_factory.mktemp('history')}")
    wanted: dict[int, int] = {}
    for clock, (what, samples, minutes) in enumerate(steps):
        rows = [row(minute, samples=samples) for minute in minutes]
        if what == "batch":
            add(history, f"g-{clock}", rows, at_ms=clock)
            wanted |= {minute: max(samples, wanted.get(minute, 0)) for minute in minutes}
        elif what == "half":
            add(history, f"g-{clock}", rows, commit=False)
        elif what == "compact":
            compact(history, clock)
        else:
            clear(history, 2**41)
        assert read(history) == [(minute, 0, wanted[minute]) for minute in sorted(wanted)]


def test_readers_see_every_row_once_while_others_compact_and_clear_away(history: History) -> None:
    """The grace is none at all here: readers then meet files that are gone, and look again."""
    for number in range(20):
        add(history, f"g-{number}", [row(number)])
    expected = [(number, 0, 6) for number in range(20)]
    failures: list[BaseException] = []
    done = threading.Event()

    def tend() -> None:
        try:
            for number in range(30):
                add(history, f"again-{number}", [row(number % 20)])
                compact(history, number)
                clear(history, 2**41)
        except BaseException as failure:  # noqa: BLE001 - told below
            failures.append(failure)
        finally:
            done.set()

    thread = threading.Thread(target=tend)
    thread.start()
    looks = 0
    while not done.is_set() or looks == 0:
        assert read(history) == expected
        looks += 1
    thread.join()
    assert failures == []


def test_a_commit_of_a_later_release_or_none_at_all_is_named(history: History, tmp_path: Path) -> None:
    add(history, "g-0", [row(1)])
    path = tmp_path / "history" / "commits" / "g-1.json"
    path.write_text('{"at_ms":1,"format":9}')
    with pytest.raises(NewerFormat, match=r"g-1\.json"):
        read(history)
    path.write_text("")
    with pytest.raises(HistoryDamaged, match=r"g-1\.json"):
        read(history)
    path.rename(path.with_suffix(".part"))
    assert read(history) == [(1, 0, 6)]


def test_hours_are_in_paths() -> None:
    assert hour_of("batch=x/hour=2026-05-01T12/part.parquet") == "2026-05-01T12"
    assert hour_of("other.parquet") == ""
