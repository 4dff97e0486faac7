"""engine/CONFIG.md: its tables are as they are made from the rows."""

from pathlib import Path

import engine
from policies.keys.page import written

PAGE = (Path(engine.__file__).parent / "CONFIG.md").read_text()


def test_the_tables_are_those_of_the_code() -> None:
    assert written(PAGE) == PAGE, "run make keys"


def test_a_row_has_one_line_and_its_bars() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `") and " | read" not in line]
    assert any(r"raymirror\|A->B" in row for row in rows)
    assert len(rows) > 150
