"""Maintenance of a table: interrupted anywhere, or done twice at once, it changes no row."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.jobs.tables import care as care_module
from engine.jobs.tables.care import care, expire, fold, is_worth_it
from engine.jobs.tables.columns import Column
from engine.jobs.tables.files import DataFile, TableFiles
from engine.jobs.tables.log import Batch
from engine.jobs.tables.options import CareOptions, CareReport, expiry_ms
from engine.jobs.tables.reading import EVER, read
from engine.jobs.tables.table import Table
from tests.unit.engine.jobs.table_rows import (
    BASE_MS,
    HOUR_MS,
    MINUTE_MS,
    SPEC,
    add,
    at,
    data_files,
    folder_of,
    newest,
    pass_time,
    rows_in,
    rows_of,
)

NOW_MS = BASE_MS + 24 * HOUR_MS
FOREVER = CareOptions(keep_s=0)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(f"file:{tmp_path}/tables/counts", SPEC)
    made.create()
    return made


def parquet(table: Table) -> list[str]:
    return [name for name in data_files(table) if name.endswith(".parquet")]


def test_each_partition_becomes_one_file_with_each_row_once(table: Table) -> None:
    add(table, [(1, 3), (59, 6)])
    add(table, [(1, 6), (60, 6)])
    before = rows_in(table, EVER, newest)
    assert fold(table, NOW_MS, newest) == (1, 0)
    assert rows_in(table) == before == [(1, 6), (59, 6), (60, 6)], "readers need no merge any more"
    assert fold(table, NOW_MS, newest) == (0, 0)
    add(table, [(2, 6)])
    assert fold(table, NOW_MS, newest) == (1, 0)
    assert rows_in(table) == [(1, 6), (2, 6), (59, 6), (60, 6)]
    assert len(table.snapshot().files) == 2


def test_without_a_merge_every_row_stays(table: Table) -> None:
    for _ in range(3):
        add(table, [(1, 1)])
    fold(table, NOW_MS)
    assert rows_in(table) == [(1, 1)] * 3


def test_a_folded_file_has_a_row_group_for_each_stretch_of_time(table: Table) -> None:
    for number in range(3):
        add(table, [(minute, number) for minute in range(0, 60, 2)])
    fold(table, NOW_MS, newest)
    (file,) = table.snapshot().files
    assert (file.rows, file.first, file.last) == (30, at(0), at(58))
    found = table.files.read(file, table.snapshot().schema, (at(10), at(12)))
    assert found.column("number").to_pylist() == [2]


def test_columns_of_a_newer_version_survive_the_maintenance_of_an_older_one(table: Table) -> None:
    newer = Table(table.uri, msgspec.structs.replace(SPEC, columns=(*SPEC.columns, Column("more", "text", "", "m"))))
    newer.create()
    newer.append(rows_of([(1, 1)], newer.spec).drop_columns(["more"]).append_column("more", [["kept"]]))
    add(table, [(2, 2)])
    assert fold(table, NOW_MS) == (1, 0)
    assert [row["more"] for some in read(newer) for row in some.to_pylist()] == ["kept", None]


def small(*sizes: int) -> list[DataFile]:
    return [DataFile(f"f{number}", "h", size, 1, 0, 0) for number, size in enumerate(sizes)]


def test_the_present_partition_is_folded_when_its_small_files_are_many() -> None:
    assert is_worth_it(small(1, 1), is_past=True)
    assert not is_worth_it(small(1), is_past=True)
    assert not is_worth_it(small(*[10] * 8), is_past=False)
    assert is_worth_it(small(*[10] * 9), is_past=False)
    assert not is_worth_it(small(1000, *[10] * 20), is_past=False)
    assert is_worth_it(small(1000, *[10] * 25), is_past=False)
    assert is_worth_it(small(10**9, *[10] * 100), is_past=False)


def test_the_present_hour_stays_small_in_files(table: Table) -> None:
    for number in range(9):
        add(table, [(number, number)])
    assert fold(table, at(10)) == (1, 0)
    assert len(table.snapshot().files) == 1


def test_two_compactions_at_once_double_nothing(table: Table) -> None:
    """deltalake 1.6.6 doubles every row here: this is why its version is pinned."""
    for number in range(4):
        add(table, [(number, number)])
    other, write = Table(table.uri, SPEC), TableFiles.write
    overlapped: list[bool] = []

    def slow(self: TableFiles, name: str, partition: str, tables: object) -> DataFile | None:
        made = write(self, name, partition, tables)  # type: ignore[arg-type]
        if not overlapped:
            overlapped.append(True)
            assert fold(other, NOW_MS) == (1, 0)
            add(other, [(9, 9)])
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableFiles, "write", slow)
        assert fold(table, NOW_MS) == (0, 1)
    assert overlapped
    assert rows_in(table) == [(0, 0), (1, 1), (2, 2), (3, 3), (9, 9)]
    assert len([name for name in parquet(table) if "folded" in name]) == 1, "the refused file is deleted at once"
    assert care(table, FOREVER, NOW_MS) == CareReport(folded=1)
    assert rows_in(table) == [(0, 0), (1, 1), (2, 2), (3, 3), (9, 9)]


@pytest.mark.parametrize(
    ("newest", "now_ms", "before_ms"),
    [([], 100, None), ([50], 100, None), ([50, 60], 100, 40), ([60, 90, 50], 55, 45), ([10, 500], 100, 0)],
)
def test_what_is_too_old_counts_from_the_last_partition_but_one(
    newest: list[int], now_ms: int, before_ms: int | None
) -> None:
    assert expiry_ms(newest, now_ms, 10) == before_ms


def test_what_is_too_old_goes_by_whole_partitions(table: Table) -> None:
    add(table, [(1, 1), (60, 2), (150, 3)])
    assert expire(table, at(90)) == (1, 0)
    assert rows_in(table) == [(60, 2), (150, 3)]
    assert expire(table, at(90)) == (0, 0)
    add(table, [(180, 4)])
    assert care(table, CareOptions(keep_s=1800), at(300)).expired == 1, "half an hour before the last hour but one"
    assert rows_in(table) == [(150, 3), (180, 4)]


def test_a_clock_that_is_wrong_takes_out_nothing(table: Table) -> None:
    add(table, [(1, 1), (61, 2)])
    ahead_ms = NOW_MS + 40 * 24 * HOUR_MS
    assert care(table, CareOptions(), ahead_ms).expired == 0
    add(table, [((ahead_ms - BASE_MS) // MINUTE_MS, 3)])
    assert care(table, CareOptions(), ahead_ms).expired == 0, "a row with that time is no reason either"
    assert rows_in(table)[:2] == [(1, 1), (61, 2)]


def test_an_expiry_that_another_process_overtakes_is_done_later(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    add(table, [(1, 1)])
    add(table, [(2, 2)])
    replace = table.replace

    def late(*given: object) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(table, "replace", replace)
            fold(table, NOW_MS)
        replace(*given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(table, "replace", late)
        assert expire(table, NOW_MS) == (0, 1)
    assert rows_in(table) == [(1, 1), (2, 2)]
    assert expire(table, NOW_MS) == (1, 0)
    assert rows_in(table) == []


def test_a_fold_whose_files_another_process_replaced_and_deleted_is_given_up(table: Table) -> None:
    for number in range(3):
        add(table, [(number, number)])
    stale = table.snapshot()
    fold(table, NOW_MS)
    pass_time(table, 1000)
    table.vacuum(0)
    with pytest.MonkeyPatch.context() as patch:
        first = iter([stale])
        patch.setattr(table, "snapshot", lambda: next(first, None) or Table(table.uri, SPEC).snapshot())
        assert care_module._fold_one(table, stale.files[0].partition, None) is False
    assert rows_in(table) == [(0, 0), (1, 1), (2, 2)]


def test_files_stay_for_a_quarter_of_an_hour_and_then_go_with_all_that_spark_left(table: Table) -> None:
    for number in range(3):
        add(table, [(number, number)])
    (folder_of(table) / "batch-x" / "_temporary" / "0").mkdir(parents=True)
    (folder_of(table) / "batch-x" / "_temporary" / "0" / "part-0.parquet").write_bytes(b"PAR1")
    pass_time(table, 100_000)
    fold(table, NOW_MS)
    assert table.vacuum(0) == 7, "of a killed task, and Spark's sums and marks; no file that was replaced just now"
    assert len(parquet(table)) == 4
    pass_time(table, 600)
    assert table.vacuum(0) == 0
    pass_time(table, 600)
    assert table.vacuum(0) == 3
    assert len(data_files(table)) == 1
    assert table.vacuum(2**52) == 0
    assert [path.name for path in folder_of(table).iterdir() if path.is_dir() and "batch" in path.name] == []
    assert rows_in(table) == [(0, 0), (1, 1), (2, 2)]


def test_an_idle_table_gets_no_commits_from_its_maintenance(table: Table) -> None:
    add(table, [(1, 1)])
    before = table.snapshot().version
    assert care(table, CareOptions(), at(10)) == CareReport()
    assert table.snapshot().version == before


class Killed(BaseException):
    """The process ends here."""


def killed_at(step: int) -> Callable[[pytest.MonkeyPatch], None]:
    """Return what makes the maintenance end before its n-th write, commit or deletion."""
    left = [step]

    def guarded(method: Callable[..., object]) -> Callable[..., object]:
        def call(*given: object, **more: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return method(*given, **more)

        return call

    def apply(patch: pytest.MonkeyPatch) -> None:
        for owner, name in ((TableFiles, "write"), (Table, "_write"), (Table, "vacuum"), (TableFiles, "inspect")):
            patch.setattr(owner, name, guarded(getattr(owner, name)))

    return apply


@pytest.mark.parametrize("step", range(12))
def test_a_kill_between_any_two_steps_loses_and_doubles_nothing(table: Table, step: int) -> None:
    for number in range(3):
        add(table, [(number, number), (60 + number, number), (120 + number, number)])
    expected = [(minute, minute % 60) for minute in (60, 61, 62, 120, 121, 122)]
    options = CareOptions(keep_s=60)
    with pytest.MonkeyPatch.context() as patch:
        killed_at(step)(patch)
        try:
            care(table, options, NOW_MS)
        except Killed:
            pass
        else:
            assert step > 9
    assert rows_in(table, (at(60), at(240))) == expected
    care(Table(table.uri, SPEC), options, NOW_MS)
    assert rows_in(table) == expected
    pass_time(table, 4000)
    care(table, options, NOW_MS)
    assert len(data_files(table)) == 2


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.integers(0, 3), st.lists(st.integers(0, 150), min_size=1, max_size=4)),
        st.tuples(st.just("again"), st.integers(0, 3), st.lists(st.integers(0, 150), min_size=1, max_size=4)),
        st.tuples(st.just("fold"), st.just(0), st.just([])),
        st.tuples(st.just("kill"), st.integers(0, 8), st.just([])),
        st.tuples(st.just("vacuum"), st.just(0), st.just([])),
    ),
    max_size=10,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_whatever_happens_every_committed_row_is_read_once(
    steps: list[tuple[str, int, list[int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = Table(f"file:{tmp_path_factory.mktemp('table')}/counts", SPEC)
    table.create()
    wanted: dict[int, int] = {}
    batches = 0
    for what, number, minutes in steps:
        if what == "batch":
            batches += 1
            assert add(table, [(minute, number) for minute in minutes], Batch("w", batches))
            wanted |= {minute: max(number, wanted.get(minute, 0)) for minute in minutes}
        elif what == "again":
            assert not batches or not add(table, [(minute, number) for minute in minutes], Batch("w", batches))
        elif what == "vacuum":
            pass_time(table, 4000)
            table.vacuum(0)
        else:
            with pytest.MonkeyPatch.context() as patch:
                killed_at(number if what == "kill" else 1000)(patch)
                try:
                    fold(Table(table.uri, SPEC), NOW_MS, newest)
                except Killed:
                    continue
        assert rows_in(table, EVER, newest) == sorted(wanted.items())
