"""Positions in MM2's own bytes."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import NewerFormat
from engine.core.formats import check_format
from engine.core.offset_map.map_runs import MapHead, MapRun, MapStart
from engine.core.position.announced_runs import Ahead
from engine.core.position.position import (
    Behind,
    ForeignPosition,
    Position,
    Seen,
    altered_value,
    decode_value,
    encode_value,
    stretches,
)
from tests.unit.engine.core.positions import position

FULL = Position(
    source_next=124,
    target_next=50,
    sequence=7,
    producer_id=41,
    producer_epoch=3,
    runs=((5, 122), (9, 130)),
    assignment_epoch=2,
    deployment_id="d",
    source_leader_epoch=4,
    source_topic_id="s",
    target_topic_id="t",
    source_cluster_id="cs",
    target_cluster_id="ct",
    map_generation=9,
    map_blocks=2,
    map_source=100,
    map_target=20,
    map_first=True,
    map_tail=(MapRun(110, 35, 4), MapRun(115, 40, 8)),
)
GOLDEN_1 = (
    b'{"offset":123,"raymirror":1,"source_next":124,"target_next":50,"sequence":7,"producer_id":41,'
    b'"producer_epoch":3,"runs":"5:122,9:130","assignment_epoch":2,"deployment_id":"d","source_leader_epoch":4,'
    b'"source_topic_id":"s","target_topic_id":"t","source_cluster_id":"cs","target_cluster_id":"ct"}'
)
GOLDEN = GOLDEN_1.replace(b'"raymirror":1', b'"raymirror":2').replace(
    b"}",
    b',"map_generation":9,"map_blocks":2,"map_source":100,"map_target":20,"map_first":true,"map_tail":"BNwBRggCAhA="}',
)


def test_the_value_is_golden() -> None:
    assert encode_value(FULL) == GOLDEN
    assert decode_value(GOLDEN) == FULL


@pytest.mark.parametrize("behind", list(Behind))
def test_what_it_is_behind_is_a_flat_field_that_is_left_out_if_nothing_is_said(behind: Behind) -> None:
    at = msgspec.structs.replace(FULL, behind=Seen(behind, 7))
    value = encode_value(at)
    said = b',"behind":"%s"' % behind.encode() if behind else b""
    assert value == GOLDEN.replace(b"}", said + b',"behind_epoch":7}')
    assert decode_value(value) == at


def test_what_a_later_version_says_it_is_behind_is_not_said() -> None:
    assert decode_value(GOLDEN.replace(b"}", b',"behind":"something else"}')) == FULL


def test_mm2_reads_ours_as_a_flat_object_with_the_last_copied_offset() -> None:
    value = json.loads(encode_value(FULL))
    assert value["offset"] == FULL.source_next - 1
    assert all(isinstance(member, int | str) for member in value.values())


def test_mm2s_own_record_is_read_as_the_last_copied_offset() -> None:
    assert decode_value(b'{"offset":123}') == ForeignPosition(offset=123)
    assert decode_value(b'{"offset":3000000000}') == ForeignPosition(offset=3_000_000_000)


@pytest.mark.parametrize("value", [None, b'{"offset":null}', b'{"offset":-1}', b"{}", b'{"other":1}'])
def test_what_mm2_calls_uncommitted_is_no_position(value: bytes | None) -> None:
    assert decode_value(value) is None


@pytest.mark.parametrize("value", [b"", b"null", b"[1]", b'{"offset":"x"}', b"\xff", b'{"offset":1.5}'])
def test_what_is_not_connects_is_an_error(value: bytes) -> None:
    with pytest.raises(ValueError, match="not a Connect source offset"):
        decode_value(value)


def test_the_next_format_is_read_without_what_it_added() -> None:
    newer = GOLDEN.replace(b'"raymirror":2', b'"raymirror":3').replace(b"}", b',"zone":"x","rack":7}')
    assert decode_value(newer) == FULL


def test_the_next_version_reads_what_this_one_wrote() -> None:
    class Next(msgspec.Struct):
        raymirror: int
        source_next: int
        zone: str = "nowhere"

    assert msgspec.json.decode(encode_value(FULL), type=Next) == Next(2, FULL.source_next)


def test_a_newer_format_is_not_guessed_at() -> None:
    with pytest.raises(NewerFormat, match=r"^format 6, written by a newer raymirror; .* format 4 and reads up to 5: "):
        decode_value(b'{"offset":1,"raymirror":6}')


def test_a_position_that_does_not_name_all_runs_is_refused_by_readers_of_format_2() -> None:
    for more in ({"ahead": Ahead(10, 11, 8)}, {"run_version": 3}):
        value = encode_value(msgspec.structs.replace(FULL, **more))
        with pytest.raises(NewerFormat):
            check_format(json.loads(value)["raymirror"], 2)


def test_a_position_of_the_first_format_has_its_map_begin_there() -> None:
    found = decode_value(GOLDEN_1)
    assert isinstance(found, Position)
    assert (found.source_next, found.runs, found.map_blocks, found.map_tail) == (124, FULL.runs, 0, ())
    assert found.map_start == MapStart(124, 50, first=False)
    assert found.map_head == MapHead(0, 0, 124, 50, ())


def test_the_head_of_the_map() -> None:
    assert FULL.map_start == MapStart(100, 20, first=True)
    assert FULL.map_head == MapHead(9, 2, 124, 50, FULL.map_tail)


@pytest.mark.parametrize("end", [{"source_next": 122}, {"target_next": 47}])
def test_a_map_beyond_its_position_is_an_error(end: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="beyond the position"):
        decode_value(encode_value(msgspec.structs.replace(FULL, **end)))


@pytest.mark.parametrize(
    ("sequence", "count", "expected"),
    [
        (5, 2, [(122, 2)]),
        (7, 4, [(124, 2), (130, 2)]),
        (9, 3, [(130, 3)]),
        (3, 4, [(122, 2)]),
        (1, 3, []),
        (6, 0, []),
    ],
)
def test_sequences_lie_in_straight_stretches(sequence: int, count: int, expected: list[tuple[int, int]]) -> None:
    assert list(stretches(FULL.runs, sequence, count)) == expected


def test_runs_that_are_none_are_an_error() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        decode_value(b'{"offset":1,"raymirror":1,"runs":"5-7"}')


@pytest.mark.parametrize(
    ("sequence", "source"), [(4, None), (5, 122), (8, 125), (9, 130), (20, 141)], ids=lambda value: str(value)
)
def test_a_sequence_belongs_to_the_last_run_that_begins_before_it(sequence: int, source: int | None) -> None:
    assert FULL.source_of(sequence) == source


@given(
    runs=st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**62)), max_size=5),
    source_next=st.integers(0, 2**62),
    text=st.text(max_size=8),
)
def test_any_position_survives(runs: list[tuple[int, int]], source_next: int, text: str) -> None:
    given_one = msgspec.structs.replace(position(source_next, runs=tuple(runs)), deployment_id=text)
    assert decode_value(encode_value(given_one)) == given_one


def test_an_atomic_position_says_so_and_a_plain_one_nothing() -> None:
    plain = position()
    atomic = msgspec.structs.replace(plain, atomic=True)
    assert b"atomic" not in encode_value(plain)
    assert decode_value(encode_value(atomic)) == atomic


@pytest.mark.parametrize(
    ("offset", "value"), [(7, b'{"offset":7,"altered":true}'), (0, b'{"offset":0,"altered":true}')]
)
def test_a_position_that_a_user_has_set_is_mm2s_too(offset: int, value: bytes) -> None:
    assert altered_value(offset) == value
    assert decode_value(value) == ForeignPosition(offset=offset, altered=True)


def test_a_position_that_a_user_has_removed_is_uncommitted_to_mm2() -> None:
    assert decode_value(altered_value(7, 3)) == ForeignPosition(offset=7, altered=True, source_leader_epoch=3)
    behind = ForeignPosition(offset=7, altered=True, source_leader_epoch=3, target_next=9)
    assert decode_value(altered_value(7, 3, 9)) == behind
    assert altered_value(None) == b'{"offset":-1,"altered":true}'
    assert decode_value(altered_value(None)) == ForeignPosition(offset=-1, altered=True)
