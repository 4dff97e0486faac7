"""The table of verdicts: each rule alone, and the first match wins."""

import itertools

import msgspec
import pytest

from engine.wire.batch import BatchHeader, Reason, Verdict, judge

WANTED, LARGEST = 100, 1000
# A batch that passes: offsets 100 .. 109, ten records, exactly as large as allowed.
CLEAN = BatchHeader(100, LARGEST - 12, 9, 2, 0, 0, 9, 0, 0, -1, -1, -1, 10)

# Rules in the order of the table: what they change in CLEAN, whether it is aborted, the reason, the verdict.
RULES: list[tuple[dict[str, int], bool, Reason, Verdict]] = [
    ({"base_offset": 90}, False, Reason.BEFORE_FETCH_OFFSET, Verdict.SKIP),
    ({"attributes": 0x20}, False, Reason.CONTROL, Verdict.SKIP),
    ({}, True, Reason.ABORTED, Verdict.SKIP),
    ({"record_count": 0}, False, Reason.EMPTIED, Verdict.SKIP),
    ({"magic": 1}, False, Reason.MAGIC, Verdict.REENCODE),
    ({"base_offset": 99}, False, Reason.MID_BATCH, Verdict.REENCODE),
    ({"record_count": 9}, False, Reason.OFFSET_GAPS, Verdict.REENCODE),
    ({"attributes": 0x08}, False, Reason.LOG_APPEND_TIME, Verdict.REENCODE),
    ({"batch_length": LARGEST - 11}, False, Reason.TOO_LARGE, Verdict.REENCODE),
]


@pytest.mark.parametrize("attributes", [0, 1, 2, 3, 4, 0x10, 0x40, 0x54])
def test_a_clean_batch_passes(attributes: int) -> None:
    header = msgspec.structs.replace(CLEAN, attributes=attributes)
    assert judge(header, WANTED, LARGEST, False) == (Verdict.PASS, None)
    assert judge(header, 0, LARGEST, False) == (Verdict.PASS, None)


@pytest.mark.parametrize(("change", "aborted", "reason", "verdict"), RULES)
def test_each_rule_alone(change: dict[str, int], aborted: bool, reason: Reason, verdict: Verdict) -> None:
    header = msgspec.structs.replace(CLEAN, **change)
    assert judge(header, WANTED, LARGEST, aborted) == (verdict, reason)


@pytest.mark.parametrize(("earlier", "later"), list(itertools.combinations(range(len(RULES)), 2)))
def test_the_earlier_rule_wins(earlier: int, later: int) -> None:
    first, second = RULES[earlier], RULES[later]
    header = msgspec.structs.replace(CLEAN, **second[0] | first[0])
    assert judge(header, WANTED, LARGEST, first[1] or second[1]) == (first[3], first[2])


def test_a_gap_at_the_end_counts_as_a_gap() -> None:
    header = msgspec.structs.replace(CLEAN, last_offset_delta=10)
    assert judge(header, WANTED, LARGEST, False) == (Verdict.REENCODE, Reason.OFFSET_GAPS)


@pytest.mark.parametrize(
    ("attributes", "wished", "passes"), [(0, None, True), (2, 2, True), (0, 2, False), (4, 2, False), (0x12, 2, True)]
)
def test_only_the_wished_codec_passes(attributes: int, wished: int | None, passes: bool) -> None:
    header = msgspec.structs.replace(CLEAN, attributes=attributes)
    expected = (Verdict.PASS, None) if passes else (Verdict.REENCODE, Reason.OTHER_CODEC)
    assert judge(header, WANTED, LARGEST, False, wished) == expected
    assert judge(header, WANTED + 99, LARGEST, False, wished)[0] is Verdict.SKIP
