"""Writes docs/tables.md: every table and column, and the ten questions as SQL. A test compares the page with this.

python -m engine.jobs.sql.page docs/tables.md
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from engine.jobs.sql.questions import QUESTIONS
from engine.jobs.tables.catalog import TABLES
from engine.jobs.tables.columns import TableSpec

_INTRO: Final = """\
# The tables

raymirror stores what it measures, proves and changes in tables below `raymirror.storage`: `<raymirror.storage>/tables/NAME`. They
are Delta Lake tables (Parquet files and a log of commits; reader version 1, writer version 2), which many tools read. This page is
made from `engine/jobs/tables/catalog.py` (`make tables`).

```
raymirror sql                                            # which tables there are, and their columns
raymirror sql "SELECT flow, max(lag_ms_max) FROM lag GROUP BY flow"
raymirror sql "SELECT * FROM audit" --csv > audit.csv    # or --json: an object per line
```

`raymirror sql` needs no mirror, no Ray and no Spark. DuckDB runs in its process, with 1 GB of memory at most; larger results of a
sort or a join go to the disk for that time. It only reads: no file, no network, no extension, no change. It finds the storage by
`--storage`, else by `--config`, else by the configuration of the mirror that runs on this machine. Each table shows each thing
once, also where a file still has it several times. `--json` and `--csv` write rows as they come.

- **Times** are Unix times in ms, in UTC, in columns that end in `_ms`. `epoch_ms(column)` makes a timestamp of one, and
  `epoch_ms(now() - INTERVAL 1 DAY)` makes a number of a timestamp.
- **A query is fast if it names the time**: files lie by hour or day, and only those of that time are read.
- **NULL** means unknown. An unknown number is never 0.
"""
_OTHERS: Final = """\
## Other tools

Everything that reads Delta Lake reads the folders, for example:

```
pandas:  deltalake.DeltaTable("/var/lib/raymirror/tables/audit").to_pandas()
Spark:   spark.read.format("delta").load("file:/var/lib/raymirror/tables/audit")      (needs delta-spark)
DuckDB:  SELECT * FROM delta_scan('file:///var/lib/raymirror/tables/audit')           (needs its extension delta)
```

Only raymirror may write to them. Files that no longer count stay for a quarter of an hour for readers that started before.
"""


def page() -> str:
    """Return the text of docs/tables.md."""
    parts = [_INTRO, *map(_table, TABLES), "## Ten questions\n", *_questions(), _OTHERS]
    return "\n".join(parts)


def _table(spec: TableSpec) -> str:
    lines = [f"## `{spec.name}`", "", f"{spec.meaning}."]
    lines += ["", f"Files lie by {spec.by} (`{spec.partition}`, UTC) of `{spec.span}`."]
    if spec.rule:
        lines += ["", f"Outside of `raymirror sql`: {spec.rule}."]
    lines += ["", "| Column | Type | Unit | Means |", "| --- | --- | --- | --- |"]
    lines += [f"| `{one.name}` | {one.kind} | {one.unit} | {one.meaning} |" for one in spec.columns]
    return "\n".join([*lines, ""])


def _questions() -> Iterator[str]:
    for number, question in enumerate(QUESTIONS, 1):
        yield f"{number}. {question.asks}\n\n   ```sql\n{_indented(question.sql)}\n   ```\n"


def _indented(text: str) -> str:
    return "\n".join(f"   {line}" for line in text.splitlines())


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
