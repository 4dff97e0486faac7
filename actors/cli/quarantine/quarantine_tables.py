"""Prints refused records: as a table, with their contents as text, and as what `--json` prints."""

from base64 import b64encode
from collections.abc import Sequence

import msgspec
from rich.table import Table

from actors.api.commands.pages import RecordBytes, RecordContents, RecordHeader, RefusedContents, RefusedFacts
from actors.observability.instants import clock_text
from actors.observability.tables import plain_table
from engine.services.quarantine import RefusedRow
from engine.wire.record import Record

_MOST_SHOWN = 500


def facts_of(row: RefusedRow) -> RefusedFacts:
    """Return what is printed of a record without its contents."""
    facts, mark = row.state.record, row.state.mark
    return RefusedFacts(
        record=str(row.name),
        state=row.standing.value,
        topic=facts.topic,
        partition=facts.partition,
        offset=facts.offset,
        topic_id=facts.topic_id,
        target_topic=facts.target_topic,
        target_offset=-1 if mark is None else mark.target_offset,
        timestamp_ms=facts.timestamp_ms,
        error_code=facts.error_code,
        error=facts.words,
        left_out_at_ms=facts.at_ms,
        done_at_ms=-1 if mark is None else mark.at_ms,
        held=facts.held,
        key_bytes=facts.key_bytes,
        value_bytes=facts.value_bytes,
        headers=facts.headers,
    )


def with_contents(row: RefusedRow, record: Record | None) -> RefusedContents:
    """Return a record with its contents; bytes that are no UTF-8 text are base64. None: nothing is held."""
    return RefusedContents(**msgspec.structs.asdict(facts_of(row)), contents=_contents_of(record))


def _contents_of(record: Record | None) -> RecordContents | None:
    if record is None:
        return None
    headers = tuple(RecordHeader(name=_bytes(name), value=_bytes(value)) for name, value in record.headers)
    return RecordContents(key=_bytes(record.key), value=_bytes(record.value), headers=headers)


def _bytes(data: bytes | None) -> RecordBytes | None:
    if data is None:
        return None
    try:
        return RecordBytes(text=data.decode())
    except UnicodeDecodeError:
        return RecordBytes(base64=b64encode(data).decode())


def records_table(rows: Sequence[RefusedFacts]) -> Table:
    """Draw records; `bytes` are those of key and value."""
    drawn = plain_table(["record", "state"], ["bytes"], whole=True)
    for name in ("left out", "copy"):
        drawn.add_column(name, no_wrap=True)
    drawn.add_column("the target said")
    for row in rows[:_MOST_SHOWN]:
        drawn.add_row(
            row.record,
            row.state,
            str((row.key_bytes or 0) + (row.value_bytes or 0)),
            clock_text(row.left_out_at_ms),
            _copy(row),
            f"{row.error} ({row.error_code})",
        )
    if len(rows) > _MOST_SHOWN:
        drawn.add_row(f"and {len(rows) - _MOST_SHOWN} more; --json prints all")
    return drawn


def _copy(row: RefusedFacts) -> str:
    place = f"{row.target_topic}-{row.partition}"
    return f"{place}@{row.target_offset}" if row.target_offset >= 0 else place


def record_text(row: RefusedContents) -> str:
    """Return one record as lines of text."""
    lines = [
        f"{row.record}: {row.state}",
        f"copy:       {_copy(row)}",
        f"refused:    {row.error} (error {row.error_code}), left out {clock_text(row.left_out_at_ms)}",
        f"timestamp:  {row.timestamp_ms}",
    ]
    record = row.contents
    if record is None:
        return "\n".join([*lines, "contents:   not held"])
    lines += [f"key:        {_text(record.key)}", f"value:      {_text(record.value)}"]
    return "\n".join([*lines, *(f"header:     {_text(one.name)} = {_text(one.value)}" for one in record.headers)])


def _text(data: RecordBytes | None) -> str:
    if data is None:
        return "null"
    if data.text is None:
        return f"base64 {data.base64}"
    return data.text if data.text.isprintable() else repr(data.text)
