"""docs/grants.md: its tables are as they are made from the rows."""

from pathlib import Path

import engine
from policies.grants.page import written

PAGE = (Path(engine.__file__).parent.parent / "docs" / "grants.md").read_text()


def test_the_tables_are_those_of_the_code() -> None:
    assert written(PAGE) == PAGE, "run make grants"


def test_every_operation_is_written_as_kafka_writes_it() -> None:
    assert "DescribeConfigs" in PAGE
    assert "DESCRIBE" not in PAGE
