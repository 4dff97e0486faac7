"""The log of a table: made once, of the right version, and with the batches that are committed."""

import json
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Schema, Transaction

from engine.base.errors import NewerFormat
from engine.jobs.tables.errors import (
    OtherBatch,
    StaleCommit,
    TableDamaged,
    TableMissing,
    TableUnreachable,
    table_errors,
)
from engine.jobs.tables.files import arrow_schema
from engine.jobs.tables.log import FORMAT, Batch, create, is_committed, lock_of, opened
from tests.unit.engine.jobs.bucket import URI, bucket
from tests.unit.engine.jobs.table_rows import SPEC

COLUMNS = Schema.from_arrow(arrow_schema(SPEC))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"file:{tmp_path}/counts"


def change_format(uri: str, to: str) -> None:
    """Change the property in the first commit."""
    path = Path(uri.removeprefix("file:")) / "_delta_log" / "00000000000000000000.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"][FORMAT] = to
    path.write_text("\n".join(json.dumps(action) for action in actions))


def test_a_table_is_created_once(uri: str) -> None:
    with pytest.raises(TableMissing, match="counts: there is no table"):
        opened(uri, SPEC)
    first = create(uri, SPEC, COLUMNS)
    assert create(uri, SPEC, COLUMNS).version() == opened(uri, SPEC).version() == first.version() == 0
    assert first.metadata().name == "counts"
    assert first.metadata().partition_columns == ["hour"]


def test_columns_that_it_lacks_are_added(uri: str) -> None:
    create(uri, SPEC, Schema(COLUMNS.fields[:3]))
    assert create(uri, SPEC, COLUMNS).schema() == opened(uri, SPEC).schema() == COLUMNS


class Overtaken:
    """Another process that creates or extends the same table, at the moment of the first commit of a number."""

    def __init__(self) -> None:
        self.awaited = ""

    def __call__(self, key: str) -> None:
        if self.awaited and key.endswith(f"{self.awaited}.json"):
            self.awaited = ""
            create(f"{URI}/tables/counts", SPEC, COLUMNS)


@pytest.mark.local
@pytest.mark.parametrize("number", [0, 1])
def test_a_table_that_another_process_creates_or_extends_at_the_same_moment_is_used(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, other = f"{URI}/tables/counts", Overtaken()
    with bucket(other) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        if number:
            create(uri, SPEC, Schema(COLUMNS.fields[:3]))
        other.awaited = f"{number:020}"
        assert create(uri, SPEC, COLUMNS).schema() == COLUMNS
        assert not other.awaited
        assert opened(uri, SPEC).schema() == COLUMNS


def test_a_folder_that_cannot_be_made_is_told(uri: str) -> None:
    Path(uri.removeprefix("file:")).write_text("in the way")
    with (
        pytest.raises(TableUnreachable, match=r"counts: the storage does not work \(.*: Invalid table location: "),
        table_errors(uri),
    ):
        create(uri, SPEC, COLUMNS)


def test_tables_of_others_and_of_later_versions_are_refused(uri: str) -> None:
    create(uri, SPEC, COLUMNS)
    change_format(uri, "2")
    opened(uri, SPEC)
    change_format(uri, "3")
    with pytest.raises(NewerFormat, match="format 3"):
        create(uri, SPEC, COLUMNS)
    change_format(uri, "")
    with pytest.raises(TableDamaged, match=r"no property raymirror\.format"):
        opened(uri, SPEC)


def test_a_batch_is_known_by_its_writer_and_number(uri: str) -> None:
    handle = create(uri, SPEC, COLUMNS)
    batch = Batch("w", 3)
    assert not is_committed(handle, uri, batch)
    made = CommitProperties(app_transactions=[Transaction("w", 3)])
    handle.create_write_transaction([], "append", handle.schema(), ["hour"], commit_properties=made)
    now: DeltaTable = opened(uri, SPEC)
    assert [is_committed(now, uri, one) for one in (batch, Batch("w", 4), Batch("v", 1))] == [True, False, False]
    with pytest.raises(StaleCommit, match="batch 2 of w is refused because batch 3"):
        is_committed(now, uri, Batch("w", 2))


def committed(uri: str, batch: Batch) -> None:
    handle = opened(uri, SPEC)
    made = CommitProperties(app_transactions=batch.transactions())
    handle.create_write_transaction([], "append", handle.schema(), ["hour"], commit_properties=made)


def test_a_batch_of_the_same_number_from_other_records_is_refused(uri: str) -> None:
    create(uri, SPEC, COLUMNS)
    for number in (3, 4):
        ours, theirs = (Batch("w", number, "o", f"offsets {who} {number}") for who in ("ours", "theirs"))
        committed(uri, theirs)
        assert is_committed(opened(uri, SPEC), uri, theirs)
        with pytest.raises(OtherBatch, match=f"batch {number} of w is refused .* from other records: two processes"):
            is_committed(opened(uri, SPEC), uri, ours)
        assert is_committed(opened(uri, SPEC), uri, Batch("w", number)), "it does not say what it was made of"
    assert not is_committed(opened(uri, SPEC), uri, Batch("w", 5, "o", "offsets"))
    assert theirs.digest > Batch("w", 3, "o", "offsets").digest, "numbers of a transaction grow"


def test_a_batch_of_an_earlier_version_is_not_compared(uri: str) -> None:
    create(uri, SPEC, COLUMNS)
    committed(uri, Batch("w", 3))
    assert is_committed(opened(uri, SPEC), uri, Batch("w", 3, "o", "offsets"))


def test_a_table_has_one_lock_in_a_process(uri: str) -> None:
    assert lock_of(uri) is lock_of(uri)
    assert lock_of(uri) is not lock_of(f"{uri}2")
