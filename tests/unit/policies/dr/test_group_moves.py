"""Where groups go on the source: played on two logs record by record, so that nothing is skipped."""

from hypothesis import given
from hypothesis import strategies as st

from policies.dr.group_moves import KeptLogs, source_place
from policies.dr.group_places import PlaceReason


@st.composite
def logs(draw: st.DrawFn) -> tuple[KeptLogs, list[str], list[str]]:
    """Both logs as names of records; offsets have no holes here."""
    shared = [f"p{number}" for number in range(draw(st.integers(0, 4)))]
    late = [f"d{number}" for number in range(draw(st.integers(0, 4)))]
    new = [f"n{number}" for number in range(draw(st.integers(0, 4)))]
    mixed, rest, others = list[str](), list(late), list(new)
    while rest or others:
        from_late = bool(rest) and (not others or draw(st.booleans()))
        mixed.append((rest if from_late else others).pop(0))
    target = [*shared, *mixed]
    echoes = tuple((at, at + 1) for at, name in enumerate(target) if name.startswith("d"))
    split = len(shared)
    made = KeptLogs(split=split, source_end=split + len(late), target_next=split, echoes=echoes)
    return made, [*shared, *late, *new], target


@given(logs(), st.data())
def test_a_group_skips_nothing_and_what_is_equal_reads_exactly_the_rest(
    played: tuple[KeptLogs, list[str], list[str]], data: st.DataObject
) -> None:
    known, source, target = played
    here = data.draw(st.integers(-1, known.source_end))
    there = data.draw(st.integers(-1, len(target)))
    read = {*source[: max(0, here)], *target[: max(0, there)]}
    ours = [at for at, name in enumerate(target) if not name.startswith("n") and at >= there]
    mapped = -1 if there < 0 else (source.index(target[ours[0]]) if ours else known.source_end)
    place = source_place(known, source=here, target=there, mapped=mapped)
    if here < 0 and there < 0:
        assert (place.offset, place.target_offset) == (-1, -1)
        return
    offset = place.offset
    if place.target_offset >= 0:
        behind = [name for name in target[place.target_offset :] if name.startswith("n")]
        offset = source.index(behind[0]) if behind else len(source)
    assert offset >= here, "no commit goes back"
    assert set(source[:offset]) <= read, "nothing is skipped"
    again = [name for name in source[offset:] if name in read]
    assert len(again) <= place.repeats
    if place.reason is PlaceReason.EXACT:
        assert not again


def test_a_commit_that_the_map_does_not_know_stays_where_the_source_has_it() -> None:
    known = KeptLogs(split=5, source_end=5, target_next=9)
    place = source_place(known, source=3, target=2, mapped=-1)
    assert (place.offset, place.reason) == (3, PlaceReason.NOT_MAPPED)
    assert source_place(known, source=-1, target=2, mapped=-1).offset == -1


def test_a_group_that_has_read_nothing_new_reads_the_tombstones_behind_what_is_shared() -> None:
    logs = KeptLogs(split=5, source_end=5, target_next=8, buried_to=7)
    assert source_place(logs, source=5, target=8, mapped=5).offset == 5
    assert source_place(logs, source=5, target=9, mapped=5).target_offset == 9, "it is among what is new"


def test_by_keys_no_offset_of_the_target_says_what_was_read_of_divergence() -> None:
    logs = KeptLogs(split=5, source_end=9, target_next=8, echoes=((8, 10),), is_keyed=True)
    place = source_place(logs, source=5, target=10, mapped=5)
    assert (place.offset, place.repeats, place.reason) == (5, 2, PlaceReason.REPEATS)
    assert source_place(logs, source=9, target=10, mapped=5).target_offset == 10
