"""The table of docs/brokers.md is that of the code."""

from pathlib import Path

from engine.kafka.capabilities.page import BEGIN, END, rows, written

PAGE = Path(__file__).parents[5] / "docs" / "brokers.md"


def test_the_page_has_the_table_of_today() -> None:
    assert written(PAGE.read_text()) == PAGE.read_text(), "make brokers"


def test_what_stands_between_the_marks_is_replaced() -> None:
    page = f"before\n{BEGIN}\nstale words\n{END}\nafter\n"
    found = written(page)
    assert found.startswith(f"before\n{BEGIN}\n\n| Ability |")
    assert found.endswith(f"\n{END}\nafter\n")
    assert "stale words" not in found
    assert all(row.count("|") == 8 for row in rows())
