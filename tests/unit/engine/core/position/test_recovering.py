"""Where a lane continues after its source or topics have changed."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.position.owning import LaneIdentity
from engine.core.position.recovering import behind_gap, is_other_cluster, renewed_point, renewed_side
from engine.core.position.resume import RENEWED, ResumePoint
from policies.sync.topic_faults import Renewed
from tests.unit.engine.core.positions import position

STORED = msgspec.structs.replace(
    position(), source_topic_id="s", target_topic_id="t", source_cluster_id="A", target_cluster_id="B"
)


def identity(source: str = "s", target: str = "t", clusters: tuple[str, str] = ("A", "B")) -> LaneIdentity:
    return LaneIdentity(
        source_topic_id=source,
        target_topic_id=target,
        source_cluster_id=clusters[0],
        target_cluster_id=clusters[1],
    )


def found(source_next: int) -> ResumePoint:
    return ResumePoint(source_next=source_next, target_next=7, sequence=0, how="position", tail_records=0)


@pytest.mark.parametrize(
    ("source", "target", "side"),
    [
        ("s", "t", None),
        ("x", "t", Renewed.SOURCE),
        ("s", "x", Renewed.TARGET),
        ("x", "y", Renewed.BOTH),
        ("", "t", None),
        ("", "x", Renewed.TARGET),
    ],
)
def test_a_topic_with_another_id_was_created_again(source: str, target: str, side: Renewed | None) -> None:
    assert renewed_side(STORED, identity(source, target)) is side


@pytest.mark.parametrize(
    ("clusters", "other"), [(("A", "B"), False), (("X", "B"), True), (("A", "X"), True), (("", ""), False)]
)
def test_a_cluster_with_another_id_is_another_one(clusters: tuple[str, str], other: bool) -> None:
    assert is_other_cluster(STORED, identity(clusters=clusters)) is other


def test_a_topic_that_was_created_again_is_copied_behind_what_is_there() -> None:
    point = renewed_point(3, 40, ((5, 9),), whole=True)
    assert (point.source_next, point.target_next, point.how, point.foreign, point.whole) == (
        3,
        40,
        RENEWED,
        ((5, 9),),
        True,
    )


@pytest.mark.parametrize(
    ("first", "last", "source_next", "cut"),
    [(100, 149, 150, 100), (120, 149, 150, 100), (80, 99, 80, 80)],
)
def test_a_lane_passes_a_hole_and_goes_back_to_where_its_source_ends(
    first: int, last: int, source_next: int, cut: int
) -> None:
    moved = behind_gap(found(100), first, last)
    assert (moved.source_next, moved.cut, moved.target_next) == (source_next, cut, 7)


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_a_lane_never_continues_inside_a_gap(source_next: int, first: int, length: int) -> None:
    moved = behind_gap(found(source_next), first, first + length)
    assert not first < moved.source_next <= first + length
    assert moved.cut <= source_next
