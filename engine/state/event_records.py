"""Converts events to records of a topic and back: JSON that people can read; compaction keeps the last per key.

    {"kind":"source_gap","flow":"A->B","about":"orders-3"}
      -> {"format":1,"at_ms":...,"severity":"error","text":"orders-3: gap: ...","event":{"event":"source_gap",...}}

The value holds text and severity next to the event, so that a reader can show a kind of event that it does not know.
"""

import typing
from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any, ClassVar

import msgspec

from engine.base.errors import NewerFormat
from engine.base.unreadable import UNREADABLE
from engine.core.events.events import AnyEvent, Event
from engine.core.formats import check_format
from policies.model import FlowName
from policies.words import counted

FORMAT_VERSION = 1


class EventsDropped(Event, frozen=True, kw_only=True, tag="events_dropped"):
    """Events that were never written: the target was unreachable for longer than the queue lasted, or refused them."""

    severity: ClassVar[str] = "warning"
    count: int
    why: str

    def text(self) -> str:
        return f"the events topic lacks {counted(self.count, 'event')} ({self.why})"


class EventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One event and when it was queued (Unix ms); `event` is None if this version does not know the kind."""

    at_ms: int
    severity: str
    kind: str
    flow: FlowName
    about: str
    text: str
    event: Event | None = None


class _Key(msgspec.Struct, frozen=True):
    kind: str
    flow: str
    about: str


class _EventValue(msgspec.Struct):
    at_ms: int
    severity: str
    text: str
    event: msgspec.Raw
    format: int = FORMAT_VERSION


class EventCodec:
    """Converts events of one flow to records and back; `kinds`: known kinds of events besides the engine's own."""

    def __init__(self, flow: FlowName, topic: str, kinds: Iterable[type[Event]] = ()) -> None:
        self.flow, self.topic = flow, topic
        known: list[Any] = [*typing.get_args(AnyEvent), EventsDropped, *kinds]
        self._decoder = msgspec.json.Decoder(reduce(or_, known))

    def encode(self, event: Event, at_ms: int) -> tuple[bytes, bytes]:
        """Return key and value of an event's record."""
        key = _Key(kind=str(type(event).__struct_config__.tag), flow=str(self.flow), about=event.about)
        value = _EventValue(
            format=FORMAT_VERSION,
            at_ms=at_ms,
            severity=event.severity,
            text=event.text(),
            event=msgspec.Raw(msgspec.json.encode(event)),
        )
        return msgspec.json.encode(key), msgspec.json.encode(value)

    def decode(self, records: Iterable[tuple[bytes | None, bytes | None]], since_ms: int = 0) -> list[EventRecord]:
        """Decode the events of this flow since an instant, oldest first, each once. Raises NewerFormat.

        Records that are no events are skipped: other programs may write to the topic, and nothing depends on it.
        """
        found: list[EventRecord] = []
        for key, value in dict.fromkeys(records):
            record = None if key is None or value is None else self._read(key, value)
            if record is not None and record.at_ms >= since_ms:
                found.append(record)
        return sorted(found, key=lambda record: record.at_ms)

    def _read(self, raw_key: bytes, raw: bytes) -> EventRecord | None:
        try:
            key, value = msgspec.json.decode(raw_key, type=_Key), msgspec.json.decode(raw, type=_EventValue)
        except UNREADABLE:
            return None
        if key.flow != str(self.flow):
            return None
        try:
            check_format(value.format, FORMAT_VERSION, f"topic {self.topic}: event {key.kind}")
            event = self._decoder.decode(value.event)
        except NewerFormat:
            raise
        except UNREADABLE:
            event = None
        return EventRecord(
            at_ms=value.at_ms,
            severity=value.severity,
            kind=key.kind,
            flow=self.flow,
            about=key.about,
            text=value.text,
            event=event,
        )
