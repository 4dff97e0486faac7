"""docs/tables.md: as it is made from the catalog and the questions."""

from pathlib import Path

import engine
from engine.jobs.sql.page import page
from engine.jobs.sql.questions import QUESTIONS
from engine.jobs.tables.catalog import TABLES

PAGE = Path(engine.__file__).parent.parent / "docs" / "tables.md"


def test_the_page_is_made_from_the_catalog() -> None:
    assert PAGE.read_text() == page(), "make tables"


def test_every_table_column_and_question_is_on_it() -> None:
    text = page()
    for spec in TABLES:
        assert f"## `{spec.name}`" in text
        for column in spec.columns:
            assert f"| `{column.name}` | {column.kind} | {column.unit} | {column.meaning} |" in text
    for question in QUESTIONS:
        assert question.asks in text
