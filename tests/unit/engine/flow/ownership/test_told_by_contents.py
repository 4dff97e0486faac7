"""Where the headers leave it open whose records are where the map has some, the contents decide."""

from collections.abc import Sequence

import msgspec
import pytest

from engine.core.offset_map.map_runs import MapRun
from engine.core.position.position import Behind, Position, Seen
from engine.core.position.resume import REGRESSION, ResumePoint, Unknown
from engine.core.position.target_tail import Tail, TailBatch
from engine.flow.ownership.told_by_contents import ended
from tests.unit.engine.core.position.test_resume import EARLIER, NEWER, foreign, marker, ours
from tests.unit.engine.core.positions import position

_KNOWN = (MapRun(0, 0, 4), MapRun(4, 4, 2))
"""Records 0 to 5 at 0 to 5, and this owner's barrier at 6, by leader epoch 3."""
_TAKEN_OVER = (ours(0, 0, 4, EARLIER), foreign(4, 2))
"""The last two may be of an MM2 that the map continues, or another writer's in the place of lost ones."""


def at() -> Position:
    return msgspec.structs.replace(
        position(6, 7, 0), behind=Seen(Behind.MARKER, 3), map_source=0, map_target=0, map_first=True, map_tail=_KNOWN
    )


def tail(*batches: TailBatch) -> Tail:
    """A log whose barrier of the position is lost: the next owner's is in its place."""
    last = msgspec.structs.replace(marker(6, NEWER), leader_epoch=4)
    return Tail(log_start=0, end=7, batches=(*batches, last))


class Contents:
    """Answers by the last source offset that it is asked about."""

    def __init__(self, answers: dict[int, bool | None]) -> None:
        self.answers = answers
        self.asked: list[int] = []

    async def compare(self, runs: Sequence[MapRun]) -> bool | None:
        last = runs[-1].source + runs[-1].count - 1
        self.asked.append(last)
        return self.answers.get(last)


async def read(answers: dict[int, bool | None], *batches: TailBatch) -> ResumePoint | Unknown:
    return await ended(at(), tail(*batches), Contents(answers).compare)


@pytest.mark.parametrize(
    ("the_maps", "before", "goes_on"),
    [
        (True, True, 6),  # they are the map's records: only a barrier is lost
        (False, True, 4),  # they are not: the map's are lost, and all before them is there
        (False, None, 4),
        (None, False, 6),
        (None, True, 4),
        (None, None, None),  # nobody can say: both sides have deleted what would show it
        (False, False, None),
    ],
)
async def test_the_contents_say_whose_records_are_there(
    the_maps: bool | None, before: bool | None, goes_on: int | None
) -> None:
    answer = await read({5: the_maps, 3: before}, *_TAKEN_OVER)
    if goes_on is None:
        assert isinstance(answer, Unknown)
    else:
        assert isinstance(answer, ResumePoint), answer
        assert answer.source_next == goes_on
        assert (answer.how == REGRESSION) is (goes_on == 4)


async def test_a_log_that_ends_as_it_was_left_is_not_compared() -> None:
    contents = Contents({})
    whole = Tail(log_start=0, end=8, batches=(msgspec.structs.replace(marker(6), leader_epoch=3), marker(7, NEWER)))
    answer = await ended(at(), whole, contents.compare)
    assert isinstance(answer, ResumePoint)
    assert (answer.source_next, contents.asked) == (6, [])


@pytest.mark.parametrize(("late", "goes_on"), [(True, 6), (False, None), (None, None)])
async def test_late_records_must_be_the_sources(late: bool | None, goes_on: int | None) -> None:
    """Another writer's record is in the place of 4, and 4 and 5 were taken up behind it, in the barrier's place too."""
    batches = ours(0, 0, 4, EARLIER), foreign(4), ours(5, 4, 1, EARLIER), ours(6, 5, 1, EARLIER)
    log = Tail(log_start=0, end=8, batches=(*batches, marker(7, NEWER)))
    answer = await ended(at(), log, Contents({5: late, 3: True}).compare)
    if goes_on is None:
        assert isinstance(answer, Unknown)
    else:
        assert isinstance(answer, ResumePoint)
        assert (answer.source_next, answer.copied) == (6, ((4, 5, 2),))
