"""The records of the bench: numbered, with the instant at which the producer sent them; and the plan of one run."""

import struct

import msgspec

RECORD_BYTES = 100
_STAMP = struct.Struct(">qq")
_REST = b"x" * (RECORD_BYTES - _STAMP.size)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One run: so many records a second, one after the other at equal distances, in turn over the partitions."""

    bootstrap: str
    topic: str
    partitions: int
    per_s: int
    warm_up_s: float
    measured_s: float
    linger_ms: float = 0.0
    """How long the producer waits for more records before it sends a batch."""
    samples: str = ""
    """A file for the times of single records, which the consumer writes; empty: none."""

    @property
    def unmeasured(self) -> int:
        """The number of the first record that counts: those before it warm everything up."""
        return int(self.per_s * self.warm_up_s)

    @property
    def records(self) -> int:
        """All records of the run."""
        return self.unmeasured + int(self.per_s * self.measured_s)


def encode(number: int, at_ns: int) -> bytes:
    """Return the value of a record; `at_ns`: of the monotonic clock, which all processes of a machine share."""
    return _STAMP.pack(number, at_ns) + _REST


def decode(value: bytes) -> tuple[int, int] | None:
    """Return the number and the instant of a record; None if it is not one of the run's records."""
    return _STAMP.unpack_from(value) if len(value) == RECORD_BYTES else None
