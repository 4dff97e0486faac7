"""The records inside a batch: the functions that REENCODE, positions and proofs use."""

from engine.wire.decode import decode_records, walk_records
from engine.wire.encode import encode_batch
from engine.wire.record import Record
from engine.wire.reencode import Coding, Encoded, reencode

__all__ = ["Coding", "Encoded", "Record", "decode_records", "encode_batch", "reencode", "walk_records"]
