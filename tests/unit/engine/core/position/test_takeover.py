"""What MM2 copied after its last position: found if certain, never guessed."""

from hypothesis import given
from hypothesis import strategies as st

from engine.core.position.takeover import CERTAIN, BehindPosition, copied_behind, fingerprint
from engine.wire.records import Record

BEFORE = list(range(100))
SOURCE = list(range(100, 200))


def test_a_clean_stop_left_nothing_behind_the_position() -> None:
    assert copied_behind(BEFORE, SOURCE, BEFORE) == BehindPosition(records=0, proven=True)


def test_what_was_copied_behind_the_position_is_counted() -> None:
    assert copied_behind(BEFORE, SOURCE, [*BEFORE, 100, 101, 102]) == BehindPosition(records=3, proven=True)


def test_a_short_history_is_an_answer_but_not_a_proven_one() -> None:
    few = BEFORE[-(CERTAIN - 1) :]
    assert copied_behind(few, SOURCE, [*few, 100]) == BehindPosition(records=1)


def test_a_history_that_repeats_itself_proves_nothing() -> None:
    same = [7] * CERTAIN
    assert copied_behind(same, SOURCE, [*same, 100]) == BehindPosition(records=1)


def test_a_target_that_begins_with_the_records_behind_the_position() -> None:
    """Nothing ever stood before them on either side."""
    assert copied_behind([], SOURCE, [100, 101], whole=True) == BehindPosition(records=2)
    assert copied_behind([], [7] * 5, [7, 7], whole=True) == BehindPosition(records=2)


def test_records_that_are_all_alike_are_not_skipped_where_nothing_is_known_before_them() -> None:
    """The target's times are of its log, so they tell nothing; what was copied may all be older than the position."""
    assert copied_behind([], [7, 8, 9], [7] * 100) == BehindPosition(records=None, doubtful=100)
    assert copied_behind([], [7] * 100, [7] * 5) == BehindPosition(records=None, doubtful=5)
    assert copied_behind([], [7], [7]) == BehindPosition(records=None, doubtful=1)
    assert copied_behind([7], [7] * 100, [7] * 5) == BehindPosition(records=None, doubtful=5)


def test_many_records_that_occur_once_are_proof_where_nothing_is_known_before_them() -> None:
    assert copied_behind([], SOURCE, SOURCE[:CERTAIN]) == BehindPosition(records=CERTAIN)
    assert copied_behind(BEFORE, SOURCE, SOURCE[:CERTAIN]) == BehindPosition(records=CERTAIN)
    few = SOURCE[: CERTAIN - 1]
    assert copied_behind([], SOURCE, few) == BehindPosition(records=None, doubtful=len(few))
    assert copied_behind([], SOURCE, few, timed=True) == BehindPosition(records=len(few))
    assert copied_behind([], [7, 7], [7, 7], timed=True) == BehindPosition(records=None, doubtful=2)


def test_a_last_record_that_looks_like_the_next_one_is_not_skipped_behind_strange_ones() -> None:
    assert copied_behind([5], [7, 8], [1, 2, 7]) == BehindPosition(records=None, doubtful=3)
    assert copied_behind([5, 7], [7, 8], [1, 7, 7]) == BehindPosition(records=None, doubtful=0)


def test_a_try_from_an_earlier_position_is_continued() -> None:
    """MM2 had copied 0 to 120, began again at 90, wrote a position at 100, and was killed behind 103."""
    assert copied_behind(BEFORE, SOURCE, [*range(121), *range(90, 104)]) == BehindPosition(records=4)


def test_a_source_that_has_nothing_behind_the_position() -> None:
    assert copied_behind(BEFORE, [], BEFORE) == BehindPosition(records=0, proven=True)


def test_everything_behind_the_position_is_there() -> None:
    assert copied_behind(BEFORE, [100, 101], [*BEFORE, 100, 101]) == BehindPosition(records=2, proven=True)


def test_a_second_try_from_the_same_position_is_continued() -> None:
    """MM2 was killed twice before it wrote a position: the target has 100..109 and then 100..103."""
    assert copied_behind(BEFORE, SOURCE, [*BEFORE, *range(100, 110), *range(100, 104)]) == BehindPosition(records=4)
    tries = [*range(100, 110), *range(100, 104)]
    assert copied_behind([], SOURCE, tries, whole=True) == BehindPosition(records=4)
    assert copied_behind([], SOURCE, tries) == BehindPosition(records=None, doubtful=14)


def test_records_that_are_all_alike_cannot_be_told_apart() -> None:
    assert copied_behind([7] * 5, [7] * 10, [7] * 8) == BehindPosition(records=None, doubtful=8)


def test_a_target_that_fits_nowhere_says_how_much_may_be_there_twice() -> None:
    assert copied_behind(BEFORE, SOURCE, [*BEFORE, 555, 556]) == BehindPosition(records=None, doubtful=2)
    assert copied_behind(BEFORE, SOURCE, [555, 556, 557]) == BehindPosition(records=None, doubtful=3)
    assert copied_behind([], SOURCE, [555]) == BehindPosition(records=None, doubtful=1)


def test_a_fingerprint_is_of_everything_that_mm2_copies() -> None:
    one = Record(0, 5, b"k", b"v", ((b"h", None),))
    assert fingerprint(one, timed=True) == fingerprint(Record(9, 5, b"k", b"v", ((b"h", None),)), timed=True)
    for other in (
        Record(0, 6, b"k", b"v", ((b"h", None),)),
        Record(0, 5, None, b"v", ((b"h", None),)),
        Record(0, 5, b"k", None, ((b"h", None),)),
        Record(0, 5, b"k", b"v", ()),
    ):
        assert fingerprint(one, timed=True) != fingerprint(other, timed=True)
    assert fingerprint(one, timed=False) == fingerprint(Record(0, 6, b"k", b"v", ((b"h", None),)), timed=False)


@given(
    st.lists(st.integers(0, 3), max_size=12),
    st.lists(st.integers(0, 3), max_size=12),
    st.integers(0, 12),
)
def test_an_answer_with_the_whole_history_at_hand_is_the_truth(
    before: list[int], source: list[int], copied: int
) -> None:
    """Whatever repeats: where all of both logs is known, an answer is the number that was copied."""
    copied = min(copied, len(source))
    found = copied_behind(before, source, [*before, *source[:copied]], whole=True)
    if found.records is None:
        assert found.doubtful >= copied
    else:
        assert found.records == copied


@given(st.lists(st.integers(0, 2), max_size=10), st.lists(st.integers(0, 2), max_size=10))
def test_candidates_are_those_that_a_plain_comparison_finds(source: list[int], target: list[int]) -> None:
    plain = [
        records
        for records in range(min(len(source), len(target)), -1, -1)
        if target[len(target) - records :] == source[:records]
    ]
    found = copied_behind([9], source, target)
    if found.records is not None:
        assert found.records in plain
