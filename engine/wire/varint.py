"""Zigzag variable-length integers of Kafka's record format v2 (`ByteUtils.readVarlong`)."""

_LONGEST = 10  # bytes of a 64-bit varint
_U64 = 0xFFFF_FFFF_FFFF_FFFF  # Java drops the excess bits of the tenth byte


class BadVarint(ValueError):
    """More bytes than a 64-bit number can need: the bytes are not a varint."""


def read_varint(buffer: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at` and the index after it. Raises `IndexError` at the end, `BadVarint` if too long."""
    byte = buffer[at]
    if byte < 0x80:  # nearly all of them
        return (byte >> 1) ^ -(byte & 1), at + 1
    raw = byte & 0x7F
    shift = 7
    for index in range(at + 1, at + _LONGEST):
        byte = buffer[index]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((raw & _U64) >> 1) ^ -(raw & 1), index + 1
        shift += 7
    raise BadVarint(f"varint longer than {_LONGEST} bytes")


def _encode(value: int) -> bytes:
    raw = ((value << 1) ^ (value >> 63)) & _U64
    out = bytearray()
    while raw > 0x7F:
        out.append((raw & 0x7F) | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


# Offset deltas and most lengths are small: looking them up is five times faster than encoding them.
_SMALL = tuple(_encode(value) for value in range(8192))


def write_varint(value: int) -> bytes:
    """Return the bytes of a signed 64-bit number."""
    return _SMALL[value] if 0 <= value < 8192 else _encode(value)
