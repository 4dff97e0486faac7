from collections.abc import Sequence

from engine.wire.header import Buffer

INTERFACE: int
HAS_CRC_INSTRUCTION: int

_Runs = tuple[tuple[int, int], ...]
_Row = tuple[int, int, int, int, int, int, int, int, int]
_Source = tuple[bytes, int, int, int, int, int, int, int, bool]

def survey(
    buffer: Buffer,
    start: int,
    end: int,
    expected: int,
    is_first: bool,
    wanted: int,
    most: int,
    small_plain: int,
    small_compressed: int,
    committed: bool,
    /,
) -> tuple[list[_Row], int, int, bool]: ...
def merge(
    regions: Sequence[Buffer], most: int, /
) -> tuple[bytearray | None, int, _Runs, int, int, int, int]: ...
def write_areas(sources: Sequence[_Source], base_timestamp: int, /) -> tuple[bytes, _Runs, int, int] | None: ...
def restamp(
    buffer: Buffer, at: int, attributes: int, producer_id: int, producer_epoch: int, base_sequence: int, /
) -> None: ...
def crc32c(buffer: bytes | Buffer, by_table: bool, /) -> int: ...
