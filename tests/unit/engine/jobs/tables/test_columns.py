"""Partitions of times, by hour and by day."""

import msgspec

from tests.unit.engine.jobs.table_rows import BASE_MS, HOUR_MS, SPEC


def test_a_partition_is_the_utc_hour_or_day_of_a_time() -> None:
    assert SPEC.partition_of(BASE_MS) == SPEC.partition_of(BASE_MS + HOUR_MS - 1) == "2027-01-15T08"
    assert msgspec.structs.replace(SPEC, by="day").partition_of(BASE_MS) == "2027-01-15"
    assert SPEC.partition_of(BASE_MS) < SPEC.partition_of(BASE_MS + HOUR_MS)
