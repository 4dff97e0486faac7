"""The compiled functions, as `src/` has them."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from engine.wire.header import Buffer

Runs: TypeAlias = tuple[tuple[int, int], ...]
StretchRow: TypeAlias = tuple[int, int, int, int, int, int, int, int, int]
SourceRow: TypeAlias = tuple[bytes, int, int, int, int, int, int, int, bool]


class NativeFunctions(Protocol):
    """Each function takes its arguments by position, and raises `OverflowError` for numbers beyond 64 bits."""

    def survey(  # noqa: PLR0913 - a value for every rule; one call serves thousands of batches
        self,
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
    ) -> tuple[list[StretchRow], int, int, bool]:
        """Return the stretches, and where, at which expected offset and whether at the end the survey stopped."""

    def merge(self, regions: Sequence[Buffer], most: int, /) -> tuple[bytearray | None, int, Runs, int, int, int, int]:
        """Return batch, records, runs, next offset, source batches, and the region and index after the last of them."""

    def merge_areas(
        self,
        regions: Sequence[Buffer],
        most: int,
        inflated: int,
        batches: int,
        opening: int,
        decompress: Callable[[int, bytes, int], bytes | None],
        /,
    ) -> tuple[bytes, int, Runs, int, int, int, int, int, int]:
        """Return the area of batches of any codec; the next six as `merge` has them, base timestamp, largest delta.

        It ends before a batch that has something else than it says. `opening`: the most that opening them may cost.
        """

    def write_areas(self, sources: Sequence[SourceRow], base_timestamp: int, /) -> tuple[bytes, Runs, int, int] | None:
        """Return area, runs, next offset and largest timestamp delta; None if a source has something else than it says.

        A source: raw, at, end, records, offset delta before, last offset delta, base offset, base timestamp, is flat.
        """

    def restamp(
        self, buffer: Buffer, at: int, attributes: int, producer_id: int, producer_epoch: int, base_sequence: int, /
    ) -> None:
        """Write the fields into the header at `at` and correct its CRC. Raises `ValueError` if no batch is there."""

    def crc32c(self, buffer: bytes | Buffer, by_table: bool, /) -> int:
        """Return the CRC-32C; with `by_table` as on a processor without the instruction."""
