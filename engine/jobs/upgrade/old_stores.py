"""Lists the stores of earlier versions, finds those that are not in the tables yet, and converts them.

A store that is added here is found by `raymirror tables`, and converted by `raymirror tables convert`.
"""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from engine.base.errors import NewerFormat
from engine.config.storage import Storage
from engine.jobs.tables.errors import TableDamaged, TableTooNew
from engine.jobs.tables.listing import Unconverted
from engine.jobs.upgrade.old_audit import OldAudit
from engine.jobs.upgrade.old_files import Added, OldFileDamaged
from engine.jobs.upgrade.old_history import OldHistory
from engine.jobs.upgrade.old_proofs import OldProofs


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    """One place that was converted: its URI, the table that has its rows now, and how many.

    `missing`: files that it names, and that are gone.
    """

    place: str
    table: str
    rows: int
    missing: int = 0


class NotConverted(msgspec.Struct, frozen=True, kw_only=True):
    """One place that could not be converted: its URI, and why. What was added stays."""

    place: str
    why: str


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

    def convert(self, storage: Storage, place: str) -> Added:
        """Add the rows of one place to the table, and mark its files as converted.

        May be interrupted and repeated: every row is added once. The files stay. Raises MirrorError, OSError,
        ArrowException.
        """
        ...


OLD_STORES: tuple[OldStore, ...] = (OldHistory(), OldAudit(), OldProofs())


def unconverted(storage: Storage) -> list[Unconverted]:
    """Return the stores that `convert` would convert. Raises OSError, ArrowException."""
    return [Unconverted(what=store.what, place=place) for store in OLD_STORES for place in store.places(storage)]


def convert(storage: Storage) -> Iterator[Converted | NotConverted]:
    """Convert every store, one after another; a damaged one hinders no other. Raises MirrorError, OSError."""
    for store in OLD_STORES:
        for place in store.places(storage):
            try:
                added = store.convert(storage, place)
            except (OldFileDamaged, TableDamaged, TableTooNew, NewerFormat) as error:
                yield NotConverted(place=place, why=str(error))
            else:
                yield Converted(place=place, table=store.table, rows=added.rows, missing=added.missing)
