"""The file of exported records: what was written is read back, and what was changed is noticed."""

from io import BytesIO

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import NewerFormat
from engine.core.divergence.export_file import (
    FORMAT_VERSION,
    BadExport,
    ExportFoot,
    ExportHead,
    ExportWriter,
    read_back,
)
from engine.wire.record import Record

HEAD = ExportHead(flow="A->B", cluster_id="id", topic="t", partition=3, first=5, end=50)
maybe = st.one_of(st.none(), st.binary(max_size=5))
records = st.lists(
    st.builds(
        Record,
        offset=st.integers(5, 49),
        timestamp=st.integers(-1, 2**62),
        key=maybe,
        value=maybe,
        headers=st.lists(st.tuples(st.binary(max_size=3), maybe), max_size=2).map(tuple),
    ),
    unique_by=lambda one: one.offset,
).map(lambda found: sorted(found, key=lambda one: one.offset))


def written(found: list[Record], head: ExportHead = HEAD) -> tuple[bytes, ExportFoot]:
    file = BytesIO()
    writer = ExportWriter(file, head)
    writer.write(found)
    return file.getvalue(), writer.finish()


def whole(found: list[Record], head: ExportHead = HEAD) -> bytes:
    file = BytesIO()
    writer = ExportWriter(file, head)
    writer.write(found)
    writer.finish()
    return file.getvalue()


def three() -> list[Record]:
    return [Record(offset, 7, b"k%d" % offset, None, ((b"h", None),)) for offset in (5, 8, 9)]


@given(records)
def test_what_was_written_is_read_back(found: list[Record]) -> None:
    _, foot = written(found)
    assert read_back(BytesIO(whole(found)), "f") == (HEAD, foot)
    lines = whole(found).splitlines()[1:-1]
    assert [msgspec.json.decode(line, type=Record) for line in lines] == found
    assert foot.records == len(found)


def test_a_line_is_readable_by_other_tools() -> None:
    assert msgspec.json.decode(whole(three()).splitlines()[1]) == {
        "offset": 5,
        "timestamp": 7,
        "key": "azU=",
        "value": None,
        "headers": [["aA==", None]],
    }


@pytest.mark.parametrize("line", range(5))
def test_a_line_that_is_missing_is_noticed(line: int) -> None:
    lines = whole(three()).splitlines(keepends=True)
    del lines[line]
    with pytest.raises(BadExport, match=r"f is not a whole export: .*; export again"):
        read_back(BytesIO(b"".join(lines)), "f")


@given(st.data())
def test_a_byte_that_is_changed_in_a_record_is_noticed(data: st.DataObject) -> None:
    lines = whole(three()).splitlines(keepends=True)
    at = data.draw(st.integers(1, 3))
    where = data.draw(st.integers(0, len(lines[at]) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda one: one != lines[at][where]))
    lines[at] = lines[at][:where] + bytes([other]) + lines[at][where + 1 :]
    with pytest.raises(BadExport):
        read_back(BytesIO(b"".join(lines)), "f")


@pytest.mark.parametrize("cut", [0, 10, -1, -30])
def test_a_file_that_was_cut_is_noticed(cut: int) -> None:
    with pytest.raises(BadExport):
        read_back(BytesIO(whole(three())[: cut - 1 if cut < 0 else cut]), "f")


@pytest.mark.parametrize("offsets", [(8, 5), (8, 8), (4,), (50,)])
def test_offsets_ascend_within_the_range(offsets: tuple[int, ...]) -> None:
    found = [Record(offset, 7, None, None) for offset in offsets]
    with pytest.raises(BadExport, match="the range ends at 50"):
        read_back(BytesIO(whole(found)), "f")


def test_a_newer_format_is_refused_by_its_number() -> None:
    newer = msgspec.structs.replace(HEAD, format=FORMAT_VERSION + 2)
    with pytest.raises(NewerFormat, match="f: format 3"):
        read_back(BytesIO(whole([], newer)), "f")
