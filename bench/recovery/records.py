"""The records of the load: each carries its partition and its number there, so all differ."""

import struct

RECORD_BYTES = 200
_ID = struct.Struct(">iq")
_FILLER = bytes(RECORD_BYTES - _ID.size)


def encode_record(partition: int, number: int) -> bytes:
    """Make the value of one record, 200 bytes."""
    return _ID.pack(partition, number) + _FILLER


def decode_record(value: bytes) -> tuple[int, int]:
    """Read partition and number of a value; raises struct.error on bytes that are too few."""
    partition, number = _ID.unpack_from(value)
    return int(partition), int(number)
