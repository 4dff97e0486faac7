"""Prints refused records: as a table, with their contents as text, and as facts for `--json`."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from actors.observability.instants import clock_text
from actors.observability.tables import plain_table
from engine.services.quarantine import RefusedRow
from engine.wire.record import Record

_MOST_SHOWN = 500


def records_table(rows: Sequence[RefusedRow]) -> Table:
    """Draw records; `bytes` are those of key and value."""
    drawn = plain_table(["record", "state"], ["bytes"], whole=True)
    for name in ("left out", "copy"):
        drawn.add_column(name, no_wrap=True)
    drawn.add_column("the target said")
    for row in rows[:_MOST_SHOWN]:
        facts = row.state.record
        drawn.add_row(
            str(row.name),
            row.standing.value,
            str((facts.key_bytes or 0) + (facts.value_bytes or 0)),
            clock_text(facts.at_ms),
            _copy(row),
            f"{facts.words} ({facts.error_code})",
        )
    if len(rows) > _MOST_SHOWN:
        drawn.add_row(f"and {len(rows) - _MOST_SHOWN} more; --json prints all")
    return drawn


def _copy(row: RefusedRow) -> str:
    mark, target = row.state.mark, row.state.record.target
    return f"{target}@{mark.target_offset}" if mark is not None and mark.target_offset >= 0 else str(target)


def row_facts(row: RefusedRow) -> dict[str, Any]:
    """Return what `--json` prints of a record without its contents."""
    facts, mark = row.state.record, row.state.mark
    return {
        "record": str(row.name),
        "state": row.standing.value,
        "topic": facts.topic,
        "partition": facts.partition,
        "offset": facts.offset,
        "topic_id": facts.topic_id,
        "target_topic": facts.target_topic,
        "target_offset": -1 if mark is None else mark.target_offset,
        "timestamp_ms": facts.timestamp_ms,
        "error_code": facts.error_code,
        "error": facts.words,
        "left_out_at_ms": facts.at_ms,
        "done_at_ms": -1 if mark is None else mark.at_ms,
        "held": facts.held,
        "key_bytes": facts.key_bytes,
        "value_bytes": facts.value_bytes,
        "headers": facts.headers,
    }


def facts_of(record: Record | None) -> dict[str, Any] | None:
    """Return the contents of a record for `--json`; bytes that are no UTF-8 text are base64. None: nothing is held."""
    if record is None:
        return None
    headers = [{"name": _bytes(name), "value": _bytes(value)} for name, value in record.headers]
    return {"key": _bytes(record.key), "value": _bytes(record.value), "headers": headers}


def _bytes(data: bytes | None) -> dict[str, str] | None:
    if data is None:
        return None
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def record_text(row: RefusedRow, record: Record | None) -> str:
    """Return one record as lines of text."""
    facts = row.state.record
    lines = [
        f"{row.name}: {row.standing.value}",
        f"copy:       {_copy(row)}",
        f"refused:    {facts.words} (error {facts.error_code}), left out {clock_text(facts.at_ms)}",
        f"timestamp:  {facts.timestamp_ms}",
    ]
    if record is None:
        return "\n".join([*lines, "contents:   not held"])
    lines += [f"key:        {_text(record.key)}", f"value:      {_text(record.value)}"]
    return "\n".join([*lines, *(f"header:     {_text(name)} = {_text(value)}" for name, value in record.headers)])


def _text(data: bytes | None) -> str:
    if data is None:
        return "null"
    try:
        found = data.decode()
    except UnicodeDecodeError:
        return f"base64 {b64encode(data).decode()}"
    return found if found.isprintable() else repr(found)
