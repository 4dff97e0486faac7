"""Writes docs/tables.md: every table and column, and questions as SQL. A test compares the page with this.

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

raymirror stores what it measures, proves and changes in tables: `<raymirror.storage>/tables/NAME`. They are Delta Lake
tables (Parquet files and a log of commits; reader version 1, writer version 2), which many tools read. This page is
made from `engine/jobs/tables/catalog.py` (`make tables`).

```
raymirror tables                                         # which tables there are: rows, files, size, newest row
raymirror sql                                            # what their columns mean
raymirror sql "SELECT flow, max(lag_ms_max) FROM lag GROUP BY flow"
raymirror sql "SELECT * FROM audit" --csv > audit.csv    # or --json: an object per line
```

`raymirror sql` needs no mirror, no Ray and no Spark: DuckDB runs in its process. A query reads these tables and nothing
else: no other file, no network, no extension; and it changes nothing. DuckDB has 1 GB of memory; what a sort or a join
needs beyond that goes to the folder for temporary files, up to half of what is free there.
`--json` and `--csv` write rows as they come. The command
finds the storage by `--storage`, else by `--config`, else by the configuration of the mirror that runs on this machine.
With `--url` it asks the mirror's [HTTP server](api.md#sql), from any machine: one SELECT, 1000 rows at most.
`raymirror tables convert` adds what earlier versions stored in formats of their own.

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

Only raymirror may write to them. Files that no longer count stay for a quarter of an hour, for readers that began
before.
"""


def page() -> str:
    """Return the text of docs/tables.md."""
    parts = [_INTRO, *map(_table, TABLES), "## Questions\n", *_questions(), _OTHERS]
    return "\n".join(parts)


def _table(spec: TableSpec) -> str:
    lines = [f"## `{spec.name}`", "", f"{spec.meaning}."]
    lines += ["", f"Files lie by {spec.by} (`{spec.partition}`, UTC) of `{spec.span}`."]
    if spec.once:
        lines += ["", f"{spec.rule}. `raymirror sql` does that; in SQL of others: `{spec.once}`."]
    lines += ["", "| Column | Type | Unit | Means |", "| --- | --- | --- | --- |"]
    lines += [f"| `{one.name}` | {one.kind} | {one.unit} | {one.meaning} |" for one in spec.columns]
    return "\n".join([*lines, ""])


def _questions() -> Iterator[str]:
    for number, question in enumerate(QUESTIONS, 1):
        yield f"{number}. {question.asks}\n"
        yield _indented(f"```sql\n{question.sql}\n```\n")


def _indented(text: str) -> str:
    """Indent text so that it belongs to an item of a list."""
    return "\n".join(f"    {line}".rstrip() for line in text.split("\n"))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
