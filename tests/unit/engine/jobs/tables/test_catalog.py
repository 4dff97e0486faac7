"""The descriptions of the tables: complete, and without a need for pyarrow."""

import subprocess
import sys

import pytest

from engine.jobs.tables.catalog import TABLES
from engine.jobs.tables.columns import TableSpec


@pytest.mark.parametrize("spec", TABLES, ids=lambda spec: spec.name)
def test_every_table_has_a_partition_and_a_time_and_says_what_each_column_means(spec: TableSpec) -> None:
    kinds = {column.name: column.kind for column in spec.columns}
    assert len(kinds) == len(spec.columns)
    assert (kinds[spec.partition], kinds[spec.span]) == ("text", "long")
    for column in spec.columns:
        assert column.meaning
        assert not column.meaning.endswith(".")
        if column.name.endswith("_ms") and column.kind == "long":
            assert column.unit in ("ms", "Unix ms")
        if column.kind == "text":
            assert not column.unit


def test_names_of_tables_are_names_of_folders() -> None:
    names = [spec.name for spec in TABLES]
    assert len(set(names)) == len(names)
    assert all(name.replace("_", "").isalnum() for name in names)


@pytest.mark.local
def test_the_catalog_imports_neither_pyarrow_nor_deltalake() -> None:
    code = "import sys, engine.jobs.tables.catalog; print({'pyarrow', 'deltalake'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
