"""A record as a value."""

import msgspec

Headers = tuple[tuple[bytes, bytes | None], ...]


class BadRecords(ValueError):
    """A record area does not contain what its batch header says."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record: offset in its log, timestamp in ms (-1 = none); header keys stay bytes, for exact copies."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
