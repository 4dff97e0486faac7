"""Makes the statistics of a file for the log of its table, from the footer of the file.

Readers pass over files by them. They must name every column: deltalake's Arrow data set (1.6.3) takes a column without
a least value for one that is NULL in all rows, so a condition on it would find nothing.
"""

import math
from collections import Counter
from typing import Any

import msgspec
import pyarrow.parquet as pq

_MOST_LETTERS = 32
_BEHIND = "\U0010ffff"
"""Greater than what follows a text that is cut."""


def statistics_of(footer: pq.FileMetaData) -> str:
    """Return rows, least and most value and number of NULLs of each column, as JSON; nothing of lists."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: Counter[str] = Counter()
    unknown: set[str] = set()
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for place in range(group.num_columns if group.num_rows else 0):
            column = group.column(place)
            name, told = column.path_in_schema, column.statistics
            if told is None or not told.has_null_count or "." in name:
                unknown.add(name)
                continue
            nulls[name] += told.null_count
            if told.has_min_max and _is_number_of_json(told.min) and _is_number_of_json(told.max):
                least[name], most[name] = (
                    min(least.get(name, told.min), told.min),
                    max(most.get(name, told.max), told.max),
                )
            elif told.null_count < group.num_rows:
                unknown.add(name)
    said = {
        "numRecords": footer.num_rows,
        "minValues": {name: _cut(value) for name, value in least.items() if name not in unknown},
        "maxValues": {name: _cut(value, _BEHIND) for name, value in most.items() if name not in unknown},
        "nullCount": {name: count for name, count in nulls.items() if name not in unknown},
    }
    return msgspec.json.encode(said).decode()


def _is_number_of_json(value: Any) -> bool:
    """Whether a value is no infinite number, which JSON does not have."""
    return not isinstance(value, float) or math.isfinite(value)


def _cut(value: Any, behind: str = "") -> Any:
    return value[:_MOST_LETTERS] + behind if isinstance(value, str) and len(value) > _MOST_LETTERS else value
