"""A store that is silent stops only the thread that asks it: no other thread, and no event loop, stands still."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.jobs.tables.appender import TableAppender
from engine.jobs.tables.care import care
from engine.jobs.tables.catalog import AUDIT
from engine.jobs.tables.log import Batch
from engine.jobs.tables.options import CareOptions
from engine.jobs.tables.table import Table
from tests.unit.engine.jobs.bucket import URI, bucket

ROOT = Path(__file__).parents[5]
DAY_MS = 86_400_000
HOLDING = {
    "file_uris",
    "generate",
    "get_add_file_sizes",
    "history",
    "is_deltatable",
    "load_cdf",
    "repair",
    "restore",
    "set_table_description",
    "set_table_name",
    "set_table_properties",
    "to_pandas",
    "to_pyarrow_dataset",
    "to_pyarrow_table",
}
"""What in deltalake 1.6.3 asks the store and lets no other thread run meanwhile (python/src/lib.rs: `block_on` without
`detach`), and what uses that."""


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    """A table in a bucket that only other threads of this process can serve."""
    with bucket() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield Table(f"{URI}/tables/audit", AUDIT)


def rows(*days: int) -> list[dict[str, object]]:
    return [{"at_ms": day * DAY_MS, "run": "r", "flow": "A->B", "topic": f"t{day}"} for day in days]


@pytest.mark.local
def test_a_table_is_used_while_other_threads_run(table: Table) -> None:
    notes = TableAppender(table.uri, AUDIT)
    assert not table.exists()
    notes.tidy(0)
    steps: list[Callable[[], object]] = [
        lambda: notes.append(rows(0, 1), Batch("w", 0)),
        table.exists,
        table.create,
        lambda: notes.append(rows(1, 2, 3), Batch("w", 1)),
        lambda: notes.append(rows(1), Batch("w", 1)),
        lambda: table.has(Batch("w", 1)),
        lambda: notes.tidy(4 * DAY_MS, DAY_MS),
        lambda: len(table.snapshot().partitions()),
    ]
    assert [step() for step in steps] == [True, True, None, True, False, True, None, 3]


@pytest.mark.local
def test_a_table_is_maintained_while_other_threads_run(table: Table) -> None:
    table.create()
    found = care(table, CareOptions(), DAY_MS)
    assert (found.folded, found.expired, found.conflicts) == (0, 0, 0)


def test_no_code_of_raymirror_uses_what_holds_other_threads() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {node.attr}"
        for folder in ("engine", "actors", "policies", "deploy", "bench")
        for path in (ROOT / folder).rglob("*.py")
        if "deltalake" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr in HOLDING
    ]
    assert found == []
