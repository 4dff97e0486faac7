"""The comparison of the demo's proof finds every kind of difference, and its place."""

import pytest

from actors.demo.digest import PartitionDigest, compare, first_difference, record_digest
from actors.demo.proof import compare_all

COUNT = 3000


def digests() -> list[bytes]:
    return [record_digest(b"k%d" % n, b"v%d" % n, (("h", b"x"),), 1_700_000_000_000 + n, 0) for n in range(COUNT)]


def side(records: list[bytes]) -> PartitionDigest:
    return PartitionDigest(digests=b"".join(records), payload_bytes=len(records))


def difference(target: list[bytes]) -> str:
    return compare("t", 0, side(digests()), side(target)).difference


def test_equal_is_identical() -> None:
    verdict = compare("t", 3, side(digests()), side(digests()))
    assert (verdict.difference, verdict.records, verdict.partition) == ("", COUNT, 3)


def test_two_empty_partitions_are_identical() -> None:
    assert compare("t", 0, side([]), side([])).difference == ""


@pytest.mark.parametrize("at", [0, 1, 999, 1000, 1777, COUNT - 2])
def test_swapped_records(at: int) -> None:
    target = digests()
    target[at], target[at + 1] = target[at + 1], target[at]
    assert difference(target) == f"record {at} is in another place"


@pytest.mark.parametrize("at", [0, 1, 1000, COUNT - 2])
def test_missing_record(at: int) -> None:
    target = digests()
    del target[at]
    assert difference(target) == (
        f"record {at} is missing in the target ({COUNT} records in the source, {COUNT - 1} in the target)"
    )


def test_missing_last_record() -> None:
    assert difference(digests()[:-1]).startswith(f"the target ends after record {COUNT - 1}")


def test_empty_target() -> None:
    assert difference([]).startswith("the target ends after record 0")


@pytest.mark.parametrize("at", [0, 1500, COUNT - 1])
def test_changed_record(at: int) -> None:
    target = digests()
    target[at] = record_digest(b"k", b"other", (), 0, 0)
    assert difference(target) == f"record {at} differs"


def test_duplicate_record() -> None:
    target = digests()
    target.insert(1500, target[1499])
    assert difference(target).startswith("record 1500 comes after a duplicate")


def test_duplicate_of_the_last_record() -> None:
    target = digests()
    target.append(target[-1])
    assert difference(target).startswith(f"the target has records after the source's last, number {COUNT}")


def test_a_replayed_stretch_of_equal_length_is_found() -> None:
    target = digests()
    target[2000:2500] = target[1500:2000]
    assert difference(target) == "record 2000 differs"


BASE = (b"k", b"v", (("h", b"x"), ("i", None)), 5, 0)


@pytest.mark.parametrize(
    "other",
    [
        (b"", b"v", (("h", b"x"), ("i", None)), 5, 0),
        (None, b"v", (("h", b"x"), ("i", None)), 5, 0),
        (b"k", None, (("h", b"x"), ("i", None)), 5, 0),
        (b"kv", b"", (("h", b"x"), ("i", None)), 5, 0),
        (b"k", b"v", (), 5, 0),
        (b"k", b"v", (("i", None), ("h", b"x")), 5, 0),
        (b"k", b"v", (("h", b"x"), ("i", b"")), 5, 0),
        (b"k", b"v", (("hx", b""), ("i", None)), 5, 0),
        (b"k", b"v", (("h", b"x"), ("i", None)), 6, 0),
        (b"k", b"v", (("h", b"x"), ("i", None)), 5, 1),
    ],
)
def test_every_part_of_a_record_counts(
    other: tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int, int],
) -> None:
    assert record_digest(*BASE) != record_digest(*other)


def test_null_and_empty_keys_and_values_differ() -> None:
    seen = {record_digest(key, value, (), 0, 0) for key in (None, b"") for value in (None, b"")}
    assert len(seen) == 4


def test_halving_agrees_with_counting() -> None:
    ours = b"".join(bytes([n % 7]) * 16 for n in range(257))
    for at in range(257):
        theirs = ours[: at * 16] + b"\xff" * 16 + ours[(at + 1) * 16 :]
        assert first_difference(ours, theirs) == at
    assert first_difference(ours, ours[: 16 * 9]) == 9


def test_a_partition_only_one_side_has_is_a_difference() -> None:
    ours = {("t", 0): side(digests()), ("t", 1): side(digests())}
    theirs = {("A.t", 0): side(digests()), ("A.t", 2): side(digests())}
    verdicts = {verdict.partition: verdict.difference for verdict in compare_all(ours, theirs, {"t": "A.t"})}
    assert verdicts[0] == ""
    assert verdicts[1].startswith("the target ends")
    assert verdicts[2].startswith("the target has records")
