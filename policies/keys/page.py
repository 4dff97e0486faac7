"""Writes the tables of engine/CONFIG.md between its marks: `make keys`. A test compares the page with this."""

import re
from collections.abc import Iterable, Iterator

from policies.keys.read_key import PLACES, REMARKS, ReadKey
from policies.keys.table import FAMILY_ANSWERS, KAFKA_TABLES, SECTIONS, KafkaTable, KeyAnswer

BEGIN, END = "<!-- written by policies/keys/page.py: {} -->", "<!-- end of what is written -->"
_OWN = "raymirror's own"


def levels() -> Iterator[str]:
    """Yield the table of levels."""
    yield "| Level | Places, strongest first |"
    yield "| --- | --- |"
    for level, places in PLACES.items():
        remark = f" ({REMARKS[level]})" if level in REMARKS else ""
        yield f"| {level} | {', '.join(f'`{place}`' for place in places)}{remark} |"


def read_keys() -> Iterator[str]:
    """Yield one table of keys that are read for each subject."""
    for title, rows in SECTIONS:
        yield f"### {title}"
        yield ""
        yield "| Key | Level | Default | Meaning | Difference from MM2 |"
        yield "| --- | --- | --- | --- | --- |"
        yield from map(_row, rows)
        yield ""


def _row(row: ReadKey) -> str:
    differs = "; ".join(filter(None, (_OWN if row.is_own else "", row.differs)))
    return line(f"`{row.name}`", row.levels, row.default, row.meaning, differs)


def kafka_keys() -> Iterator[str]:
    """Yield one table for each group of Kafka's classes: every key, by answer and reason."""
    for table in KAFKA_TABLES:
        yield f"### {table.title}"
        yield ""
        yield f"Classes: {', '.join(f'`{name}`' for name in table.classes)}."
        yield ""
        yield "| Keys | Answer | How, or why |"
        yield "| --- | --- | --- |"
        yield from _answers(table)
        yield ""
    yield "### Families of keys, in all of these classes"
    yield ""
    yield "| Keys | Answer | Why |"
    yield "| --- | --- | --- |"
    for begin, answer, why in FAMILY_ANSWERS:
        yield line(f"`{begin}*`", answer.value, why)


def _answers(table: KafkaTable) -> Iterator[str]:
    found: dict[tuple[KeyAnswer, str], list[str]] = {}
    for name, answer, why in table.answers():
        said = (KeyAnswer.READ, "") if answer is KeyAnswer.READ else (answer, why)
        found.setdefault(said, []).append(name)
    for answer in KeyAnswer:
        for (what, why), names in found.items():
            if what is answer:
                yield line(", ".join(f"`{name}`" for name in names), answer.value, why)


def line(*cells: str) -> str:
    """Return a row of a table in Markdown."""
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |".replace("|  |", "| |")


PARTS = {"levels": levels, "keys that are read": read_keys, "keys of Kafka": kafka_keys}


def written(page: str) -> str:
    """Return the page with its tables as this module writes them."""
    for name, lines in PARTS.items():
        page = replaced(page, BEGIN.format(name), END, lines())
    return page


def replaced(page: str, begin: str, end: str, lines: Iterable[str]) -> str:
    """Return a page with other lines between two of its marks."""
    between = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
    assert between.search(page), f"no marks: {begin}"
    text = "\n".join(lines).rstrip()
    return between.sub(lambda _: f"{begin}\n{text}\n{end}", page)
