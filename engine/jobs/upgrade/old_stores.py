"""Lists the stores of earlier versions, finds those that are not in the tables yet, and converts them.

A store that is added here is found by `raymirror tables`, and converted by `raymirror tables convert`.
"""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from engine.config.storage import Storage
from engine.jobs.upgrade.old_history import OldHistory


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    """One place that was converted: its URI, the table that has its rows now, and how many."""

    place: str
    table: str
    rows: int


class OldStore(Protocol):
    """A kind of store that an earlier version wrote."""

    @property
    def what(self) -> str:
        """What it holds, as people say: `the history of lag`."""
        ...

    @property
    def table(self) -> str:
        """The name of the table that takes its rows."""
        ...

    def places(self, storage: Storage) -> list[str]:
        """Return the URIs of such stores that are not converted yet. Raises OSError, ArrowException."""
        ...

    def convert(self, storage: Storage, place: str) -> int:
        """Add the rows of one place to the table, and mark the place as converted; return the number of rows.

        May be interrupted and repeated: every row is added once. The files stay. Raises MirrorError, OSError,
        ArrowException.
        """
        ...


OLD_STORES: tuple[OldStore, ...] = (OldHistory(),)


class Unconverted(msgspec.Struct, frozen=True, kw_only=True):
    """A store of an earlier version that is not in the tables: what it holds, and its URI."""

    what: str
    place: str


def unconverted(storage: Storage) -> list[Unconverted]:
    """Return the stores that `convert` would convert. Raises OSError, ArrowException."""
    return [Unconverted(what=store.what, place=place) for store in OLD_STORES for place in store.places(storage)]


def convert(storage: Storage) -> Iterator[Converted]:
    """Convert every store, one after another. Raises MirrorError, OSError, ArrowException."""
    for store in OLD_STORES:
        for place in store.places(storage):
            yield Converted(place=place, table=store.table, rows=store.convert(storage, place))
