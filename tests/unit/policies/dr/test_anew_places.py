"""Where groups go in a topic that was made anew: nothing that was not read is skipped, and what is called exact is."""

from hypothesis import given
from hypothesis import strategies as st

from policies.dr.anew_places import AnewLog, anew_place
from policies.dr.group_places import PlaceReason


@given(
    st.integers(0, 4),
    st.lists(st.sampled_from("nd"), max_size=8),
    st.integers(-1, 12),
    st.integers(0, 12),
    st.booleans(),
)
def test_nothing_is_skipped_and_what_is_called_exact_repeats_nothing(
    shared: int, rest: list[str], target: int, before: int, has_source: bool
) -> None:
    """The log holds `shared` records of P, then N and D as in `rest`; the group has read P and D up to `before`."""
    kinds = ["p"] * shared + rest
    places = [at for at, kind in enumerate(kinds) if kind != "n"]
    read_here = set(places[:before]) if has_source else set[int]()
    source = (places[before] if before < len(places) else (places[-1] + 1 if places else 0)) if has_source else -1
    target = min(target, len(kinds))
    late = tuple((at, at + 1) for at, kind in enumerate(kinds) if kind == "d")
    place = anew_place(AnewLog(new_first=shared, late=late), target=target, source=min(source, len(kinds)))
    if target < 0 and not has_source:
        assert (place.offset, place.reason) == (-1, PlaceReason.EXACT)
        return
    read = set(range(max(0, target))) | read_here
    assert set(range(place.offset)) <= read, "it skips nothing"
    again = {at for at in read if at >= place.offset}
    assert len(again) == place.repeats
    assert (place.reason is PlaceReason.EXACT) <= (not again)


def test_reasons_name_what_is_not_exact() -> None:
    log = AnewLog(new_first=4, late=((6, 9),))
    assert anew_place(log, target=4, source=8).reason is PlaceReason.REPEATS
    assert anew_place(log, target=6, source=8).reason is PlaceReason.INSIDE_DIVERGED
    assert anew_place(log, target=6, source=9).offset == 9
    assert anew_place(log, target=4, source=4, discards=True).reason is PlaceReason.READ_DISCARDED
    assert anew_place(log, target=0, source=-1, expired=True).reason is PlaceReason.EXPIRED
