"""The native module: which way is in use, and hostile arguments and bytes that must never do more than raise."""

import builtins
import contextlib
import struct
import types
from typing import Any

import msgspec
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from engine.base import native_switch
from engine.wire import areas, native
from engine.wire.areas import RecordSlice, inflate
from engine.wire.batch import check_crc, restamp
from engine.wire.bounded import MAX_INFLATED_BYTES
from engine.wire.header import HEADER_BYTES
from engine.wire.record import BadRecords
from tests.unit.engine.wire.batches import PARTITION, TOPIC, batch, header_of, only, records

needs_native = pytest.mark.skipif(native.module is None, reason=native.in_use())
I64 = st.integers(-(1 << 63), (1 << 63) - 1)


def module() -> Any:
    """The compiled functions, also for arguments of wrong types."""
    assert native.module is not None
    return native.module


# --- which way is in use -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "is_off"),
    [("off", True), (" OFF ", True), ("false", True), ("0", True), ("on", False), ("", False), (None, False)],
)
def test_the_switch(value: str | None, is_off: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if value is None:
        monkeypatch.delenv(native_switch.VARIABLE, raising=False)
    else:
        monkeypatch.setenv(native_switch.VARIABLE, value)
    assert native_switch.is_off() is is_off
    assert (native._loaded()[0] is None) or not is_off
    assert not is_off or native._loaded()[1] == "pure Python (RAYMIRROR_NATIVE=off)"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("cannot import name '_native' from 'engine.wire.native'", "pure Python (the native module is not built)"),
        ("wrong ELF class", "pure Python (the native module is wrong ELF class)"),
    ],
)
def test_without_a_module_that_can_be_loaded(message: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain_import = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "engine.wire.native":
            raise ImportError(message)
        return plain_import(name, *rest)

    monkeypatch.delenv(native_switch.VARIABLE, raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)
    assert native._loaded() == (None, said)


@pytest.mark.parametrize(
    ("interface", "has_instruction", "said"),
    [
        (native._INTERFACE, 1, "native"),
        (native._INTERFACE, 0, "native (checksums by table: no SSE 4.2)"),
        (native._INTERFACE + 1, 1, "pure Python (the native module was built from other sources: run `make setup`)"),
    ],
)
def test_a_module_that_was_loaded(
    interface: int, has_instruction: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = types.SimpleNamespace(INTERFACE=interface, HAS_CRC_INSTRUCTION=has_instruction)
    monkeypatch.delenv(native_switch.VARIABLE, raising=False)
    monkeypatch.setattr(native, "_native", loaded, raising=False)
    plain_import = builtins.__import__

    def give(name: str, *rest: Any) -> Any:
        return native if name == "engine.wire.native" else plain_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", give)
    assert native._loaded() == (loaded if said.startswith("native") else None, said)


def test_one_way_is_in_use() -> None:
    assert native.in_use().startswith("native" if native.module is not None else "pure Python")


# --- checksums -----------------------------------------------------------------------------------------------


@needs_native
@given(st.binary(max_size=2000), st.integers(0, 30))
def test_checksums_are_those_of_the_package(some: bytes, times: int) -> None:
    data = some * times
    assert module().crc32c(data, False) == module().crc32c(data, True) == crc32c(data)


@needs_native
@pytest.mark.parametrize("size", [0, 1, 7, 8, 767, 768, 769, 12_287, 12_288, 12_289, 100_000])
def test_checksums_at_the_ends_of_their_lanes(size: int) -> None:
    data = bytes(index * 7 & 0xFF for index in range(size))
    assert module().crc32c(data, False) == module().crc32c(data, True) == crc32c(data)


@needs_native
@given(st.integers(1, 70_000), I64, st.integers(-(1 << 15), (1 << 15) - 1), st.integers(0, (1 << 31) - 1))
def test_a_corrected_checksum_is_the_one_over_all_bytes(size: int, producer: int, epoch: int, sequence: int) -> None:
    built = batch(records(1, size=size), 0)
    again = bytearray(built)
    restamp(built, 0, header_of(built), producer, epoch, sequence, transactional=bool(size % 2))
    check_crc(built, 0, only(built), TOPIC, PARTITION)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "module", None)
        restamp(again, 0, header_of(again), producer, epoch, sequence, transactional=bool(size % 2))
    assert again == built


# --- hostile arguments ---------------------------------------------------------------------------------------


@needs_native
@given(st.binary(max_size=200), I64)
def test_restamp_stays_inside_its_buffer(noise: bytes, at: int) -> None:
    buffer = bytearray(noise)
    for place in (at, at % 200, 0):
        with contextlib.suppress(ValueError):
            module().restamp(buffer, place, 0, 1, 2, 3)
    assert len(buffer) == len(noise)


@needs_native
@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 48, 50, (1 << 31) - 1])
def test_restamp_refuses_a_length_that_does_not_fit(length: int) -> None:
    buffer = bytearray(HEADER_BYTES)
    struct.pack_into(">i", buffer, 8, length)
    with pytest.raises(ValueError, match="no batch at 0 of 61 bytes"):
        module().restamp(buffer, 0, 0, 1, 2, 3)


@needs_native
def test_wrong_arguments_raise() -> None:
    counts = {"survey": 10, "merge": 2, "merge_areas": 6, "write_areas": 2, "restamp": 6, "crc32c": 2}
    for name, many in counts.items():
        call = getattr(module(), name)
        with pytest.raises(TypeError, match=f"{name} takes {many} arguments, not 1"):
            call(b"")
        with pytest.raises(TypeError):
            call(*["no number"] * many)
        with pytest.raises((TypeError, OverflowError)):
            call(*[1 << 64] * many)
    with pytest.raises(TypeError):
        module().merge(5, 100)
    with pytest.raises(TypeError):
        module().merge(["text"], 100)
    for regions in (5, ["text"]):
        with pytest.raises(TypeError):
            module().merge_areas(regions, 100, 100, 100, 100, bytes)
    with pytest.raises((BufferError, TypeError)):
        module().restamp(bytes(100), 0, 0, 0, 0, 0)
    for start, end in ((-1, 5), (3, 2), (0, 11), (1 << 62, 1 << 62)):
        with pytest.raises(ValueError, match="survey"):
            module().survey(bytes(10), start, end, 0, True, 0, 100, 0, 0, True)
    for source in ("text", (1, 2), (b"", 0, 0, 0, 0, 0, 0, 0), ("", 0, 0, 0, 0, 0, 0, 0, False)):
        with pytest.raises(TypeError):
            module().write_areas([source], 0)
    for at, end in ((-1, 0), (1, 0), (0, 3)):
        with pytest.raises(ValueError, match="write_areas"):
            module().write_areas([(b"ab", at, end, 0, -1, 0, 0, 0, False)], 0)


@needs_native
@given(st.lists(st.tuples(st.binary(max_size=60), I64, I64, I64, I64, I64, st.booleans()), max_size=4), I64)
def test_areas_of_noise(made: list[tuple[bytes, int, int, int, int, int, bool]], base_timestamp: int) -> None:
    sources = [(raw, 0, len(raw), *rest) for raw, *rest in made]
    found = module().write_areas(sources, base_timestamp)
    assert found is None or len(found) == 4


@needs_native
@given(st.data())
def test_areas_with_broken_bytes_are_as_in_python(data: st.DataObject) -> None:
    built = batch(records(8, first=20), 0)
    source = inflate(built, 0, header_of(built), MAX_INFLATED_BYTES)
    raw = bytearray(source.raw)
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=3)):
        raw[at] = value
    cut = data.draw(st.integers(0, len(raw)))
    broken = areas.InflatedBatch(
        bytes(raw[:cut] if data.draw(st.booleans()) else raw),
        data.draw(st.sampled_from([8, 8, 7, 9, 0, -1, 1 << 31])),
        data.draw(st.sampled_from([7, 7, 6, -1, 1 << 40])),
        data.draw(st.sampled_from([20, 0, -1, (1 << 63) - 1])),
        28,
        data.draw(st.sampled_from([0, 1_700_000_000_000, (1 << 63) - 1, -(1 << 63)])),
        data.draw(st.booleans()),
        0,
    )
    part = RecordSlice(0, len(broken.raw), broken.count, data.draw(st.sampled_from([-1, 0, 1 << 40])))
    base_timestamp = data.draw(st.sampled_from([0, 5, (1 << 63) - 1]))
    found = _written(broken, part, base_timestamp)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "module", None)
        assert found == _written(broken, part, base_timestamp)


def test_numbers_beyond_64_bits_are_left_to_the_python_way() -> None:
    """The offsets of a batch of format 0 may be further apart than 64 bits can say."""
    built = batch(records(2), 0)
    source = inflate(built, 0, header_of(built), MAX_INFLATED_BYTES)
    far = msgspec.structs.replace(source, base_offset=-(1 << 63), last_offset_delta=1 << 64)
    assert areas.write([(far, far.whole)], far.base_timestamp).next_offset == -(1 << 63) + 2


def _written(source: areas.InflatedBatch, part: RecordSlice, base_timestamp: int) -> object:
    try:
        found = areas.write([(source, part)], base_timestamp)
    except BadRecords as error:
        return str(error)
    return bytes(found.area), found.runs, found.next_offset, found.max_delta


@needs_native
@given(st.binary(max_size=400), st.integers(0, 500))
def test_surveys_and_merges_of_noise(noise: bytes, most: int) -> None:
    rows, at, _, _ = module().survey(noise, 0, len(noise), 0, True, 0, most, most, most, True)
    assert at <= len(noise)
    assert rows == [] or at > 0
    assert module().merge([noise, bytearray(noise)], most)[4] >= 0


@needs_native
@given(st.data())
def test_plain_merges_of_broken_batches(data: st.DataObject) -> None:
    """Lengths, counts, deltas, timestamps and record bytes of every value; merge does not look at checksums."""
    built = bytearray(b"".join(bytes(batch(records(3, first=first), 0)) for first in (0, 3, 6)))
    places = st.sampled_from([*range(8, 12), *range(23, 43), *range(57, 90)]) | st.integers(0, len(built) - 1)
    for at, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=5)):
        built[at] = value
    cut = data.draw(st.integers(0, len(built)))
    payload, count, runs, _, batches, _, _ = module().merge([memoryview(built)[:cut]], 1 << 20)
    assert (payload is None) is (batches == 0)
    assert payload is None or (header_of(payload).record_count == count and runs[0][0] == 0)
