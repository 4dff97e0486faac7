"""Decides where a copy ended by batch headers and, after a loss of records, by what the records hold."""

from collections.abc import Awaitable, Callable, Sequence

from engine.core.offset_map.map_runs import MapRun
from engine.core.position.parting import last_kept
from engine.core.position.position import Position
from engine.core.position.resume import NOT_OF_THE_MAP, REGRESSION, ResumePoint, Unknown
from engine.core.position.right_before import is_cut
from engine.core.position.stored_tail import read_stored_tail
from engine.core.position.target_tail import Tail

Compare = Callable[[Sequence[MapRun]], Awaitable[bool | None]]
"""Whether the records of some runs are the same on both sides; None if neither side has one that the other has."""


async def ended(position: Position, tail: Tail, compare: Compare) -> ResumePoint | Unknown:
    """Find where the copy ended; after a loss the records that the map has there must be those of the source.

    Where the map has a record of an earlier owner, one of another producer id may be that record, or another writer's
    in the place of a lost one. The headers do not tell, so each answer is compared. Raises as `compare` does.
    """
    found = read_stored_tail(position, tail)
    if isinstance(found, Unknown) or not (is_cut(position, tail) or found.how == REGRESSION):
        return found
    holds = await _holds(position, found, compare)
    if holds:
        return found
    other = read_stored_tail(position, tail, distrusts=True)
    if other == found or isinstance(other, Unknown):
        may_be = holds is None and other == found
        return found if may_be else _unknown(found)
    match holds, await _holds(position, other, compare):
        case (_, True) | (False, None):
            return other
        case (None, False):
            return found
    return _unknown(found)


async def _holds(position: Position, found: ResumePoint, compare: Compare) -> bool | None:
    """Whether the log has the records that an answer says; None if those before it are nowhere any more."""
    is_late = found.how == REGRESSION and bool(found.copied)
    if is_late and not await compare(found.copied):
        return False
    end = found.copied[0].target if is_late else found.target_end if found.target_end >= 0 else position.target_next
    kept = last_kept(position, end)
    return True if kept is None else await compare([kept])


def _unknown(found: ResumePoint) -> Unknown:
    return Unknown(
        expected=found.target_next,
        found=found.copied[0].target if found.copied else max(0, found.target_next - 1),
        cause=NOT_OF_THE_MAP,
    )
