"""Runs of a lane that become durable without a whole position: announcements, and runs that are expected.

    positions partition   P(base 7) | A(7, slot 0) | A(7, slot 1) | P(base 11) | A(11, slot 0)

An *announcement* (A) is a small record that names only the runs that began since the last durable position (P) or
announcement. It counts only together with the position of its producer epoch and base. Its key names lane and slot, so
the cleaner deletes an announcement only after a later position has replaced it. The announcements of one base are in
slots 0, 1, 2 and so on; a reader that misses one of them refuses the position.

*Ahead* are expected runs: `repeats` more runs after the last named run, each one `records` sequences and `step` source
offsets after the one before. A source whose transactions have equal sizes has such runs: one marker every n records.
Appends follow expected runs only as long as the source has exactly these runs; the first other record waits for an
announcement, which replaces the rest. So the target never holds a record that the durable runs name wrongly. But a
copy that ends at the start of an expected run may end before a hole or before a record: it continues at the lower
offset (`resume_offset`).

    key     ["raymirror",{"<base64 of 9 bytes of the hash of the position's key>":slot}]
    value   one byte format; varints: producer id, epoch, base; number of runs, first sequence, first source offset;
            per further run: sequences and left-out source offsets since the run before; records, step, repeats (0, 0, 0
            for none)

The key has the shape of Connect's keys, so MM2 ignores it without a warning. `core/formats.py` has the version rule.
"""

from base64 import urlsafe_b64encode
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

import msgspec

from engine.core.formats import check_format
from engine.wire.varint import read_varint, write_varint

FORMAT_VERSION = 1
_BEFORE_LANE = b'["raymirror",{"'

Run = tuple[int, int]
"""(first sequence, its source offset) of one run."""


class Ahead(NamedTuple):
    """Expected runs: `repeats` runs of `records` sequences each, their source offsets `step` apart."""

    records: int
    step: int
    repeats: int


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that began since the position with this base, and those expected after them."""

    producer_id: int
    producer_epoch: int
    base: int
    runs: tuple[Run, ...]
    ahead: Ahead | None = None


def check_ahead(ahead: Ahead) -> None:
    """Raise ValueError unless expected runs have records and ascend on both sides."""
    if ahead.records < 1 or ahead.step < ahead.records or ahead.repeats < 1:
        raise ValueError(f"expected runs that cannot be: {tuple(ahead)}")


def runs_until(runs: Sequence[Run], ahead: Ahead | None, sequence: int) -> tuple[Run, ...]:
    """Return the runs, and the expected ones that start below a sequence."""
    if ahead is None or not runs:
        return tuple(runs)
    first, source = runs[-1]
    count = min(ahead.repeats, max(0, sequence - 1 - first) // ahead.records)
    return *runs, *((first + at * ahead.records, source + at * ahead.step) for at in range(1, count + 1))


def resume_offset(runs: Sequence[Run], ahead: Ahead | None, sequence: int) -> int | None:
    """Return the source offset where a copy continues that ends before `sequence`; None before the first run."""
    found = None
    for first, source in runs_until(runs, ahead, sequence):
        if first > sequence:
            break
        found = source + (sequence - first)
    return found


def with_announced(
    runs: Sequence[Run], ahead: Ahead | None, announced: Iterable[Announcement]
) -> tuple[tuple[Run, ...], Ahead | None]:
    """Add announcements to the runs of their position, oldest first: each replaces what was named from its start on."""
    known = tuple(runs)
    for one in announced:
        first = one.runs[0][0]
        if known and first < known[0][0]:
            raise ValueError(f"a run is announced at sequence {first}, before the position's first run")
        known = runs_until(known, ahead, first)
        known, ahead = (*known[: bisect_left(known, (first, -1))], *one.runs), one.ahead
    return known, ahead


class LaneKeys(msgspec.Struct, frozen=True):
    """The keys of a lane's announcements. `name`: the lane's part of them (`lane_name`)."""

    name: bytes

    def encode(self, slot: int) -> bytes:
        """Encode the key of a slot."""
        return b'%b%b":%d}]' % (_BEFORE_LANE, self.name, slot)


def lane_keys(position_key: bytes) -> LaneKeys:
    """Return the keys of the announcements that belong to a position's key."""
    return LaneKeys(urlsafe_b64encode(blake2b(position_key, digest_size=9).digest()))


def split_key(key: bytes | None) -> tuple[LaneKeys, int] | None:
    """Return the lane's keys and the slot of an announcement's key; None for any other key."""
    if key is None or not key.startswith(_BEFORE_LANE):
        return None
    name, found, slot = key[len(_BEFORE_LANE) :].partition(b'":')
    return (LaneKeys(name), int(slot[:-2])) if found and slot.endswith(b"}]") and slot[:-2].isdigit() else None


def encode_announcement(one: Announcement) -> bytes:
    """Encode the value of an announcement's record."""
    numbers = [one.producer_id, one.producer_epoch, one.base, len(one.runs), *one.runs[0]]
    for (sequence, source), (following, place) in pairwise(one.runs):
        numbers += (following - sequence, (place - source) - (following - sequence))
    numbers += one.ahead or (0, 0, 0)
    return bytes((FORMAT_VERSION,)) + b"".join(write_varint(number) for number in numbers)


def decode_announcement(value: bytes) -> Announcement:
    """Decode an announcement's record. Raises NewerFormat; ValueError for bytes that are none."""
    try:
        check_format(value[0], FORMAT_VERSION)
        at = 1
        numbers: list[int] = []
        for _ in range(6):
            number, at = read_varint(value, at)
            numbers.append(number)
        producer_id, epoch, base, count, sequence, source = numbers
        runs = [(sequence, source)]
        for _ in range(count - 1):
            records, at = read_varint(value, at)
            left_out, at = read_varint(value, at)
            sequence, source = sequence + records, source + records + left_out
            runs.append((sequence, source))
        records, at = read_varint(value, at)
        step, at = read_varint(value, at)
        repeats, at = read_varint(value, at)
    except IndexError:
        raise ValueError("an announcement of runs ends early") from None
    if count < 1 or any(after[0] <= run[0] or after[1] < run[1] for run, after in pairwise(runs)):
        raise ValueError("an announcement of runs that do not ascend")
    ahead = Ahead(records, step, repeats) if repeats else None
    if ahead is not None:
        check_ahead(ahead)
    return Announcement(producer_id=producer_id, producer_epoch=epoch, base=base, runs=tuple(runs), ahead=ahead)


Slots = Mapping[int, tuple[int, bytes | None]]
"""The newest record of each slot of a lane: where it is among the records of its partition, and its value."""


def announced_since(producer: tuple[int, int], base: int, place: int, slots: Slots) -> tuple[Announcement, ...]:
    """Return the announcements of one producer (id, epoch) and base, by their slots.

    `place`: where the position is among the records of its partition. What other owners announced before it does not
    count. Raises ValueError if an announcement is missing, of a later base, or of another producer behind the position:
    then the position is not the lane's newest, or an announcement of it was overwritten.
    """
    found: dict[int, Announcement] = {}
    for slot, (at, value) in slots.items():
        one = _owned(producer, value, is_behind=at > place)
        if one is not None and one.base > base:
            raise ValueError(f"runs are announced for a later position ({one.base}) than the stored one ({base})")
        if one is not None and one.base == base:
            found[slot] = one
    if sorted(found) != list(range(len(found))):
        raise ValueError(f"of the announced runs after the position, some are missing: {sorted(found)} are there")
    return tuple(found[slot] for slot in range(len(found)))


def _owned(producer: tuple[int, int], value: bytes | None, *, is_behind: bool) -> Announcement | None:
    """Decode an announcement; None if it is of an earlier owner, whatever it says. `is_behind`: behind the position."""
    try:
        one = None if value is None else decode_announcement(value)
    except ValueError:
        if is_behind:
            raise
        return None
    if one is None or (one.producer_id, one.producer_epoch) == producer:
        return one
    if is_behind:
        raise ValueError(f"producer {one.producer_id}, not {producer[0]}, announced runs after the stored position")
    return None
