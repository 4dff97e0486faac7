"""The table of capabilities against what releases of Apache Kafka offer: each is there from `since` on."""

import pytest

from engine.kafka.capabilities.table import TABLE, Capability, Versions, Weight

RELEASES: dict[str, Versions] = {
    # The validVersions of the message definitions at each tag (before 2.4: the schemas of the Java classes).
    "2.1": {
        0: (0, 7), 1: (0, 10), 2: (0, 4), 3: (0, 7), 8: (0, 6), 9: (0, 5), 10: (0, 2), 15: (0, 2), 16: (0, 2),
        19: (0, 3), 20: (0, 3), 22: (0, 1), 23: (0, 2), 24: (0, 1), 26: (0, 1), 29: (0, 1), 30: (0, 1), 32: (0, 2),
        33: (0, 1), 35: (0, 1), 37: (0, 1),
    },
    "2.5": {
        0: (0, 8), 1: (0, 11), 2: (0, 5), 3: (0, 9), 8: (0, 8), 9: (0, 7), 10: (0, 3), 15: (0, 5), 16: (0, 3),
        19: (0, 5), 20: (0, 4), 22: (0, 3), 23: (0, 3), 24: (0, 1), 26: (0, 1), 29: (0, 2), 30: (0, 2), 32: (0, 2),
        33: (0, 1), 35: (0, 1), 37: (0, 2), 44: (0, 1),
    },
    "2.8": {
        0: (0, 9), 1: (0, 12), 2: (0, 6), 3: (0, 11), 8: (0, 8), 9: (0, 7), 10: (0, 3), 15: (0, 5), 16: (0, 4),
        19: (0, 7), 20: (0, 6), 22: (0, 4), 23: (0, 4), 24: (0, 3), 26: (0, 3), 29: (0, 2), 30: (0, 2), 32: (0, 4),
        33: (0, 2), 35: (0, 2), 37: (0, 3), 44: (0, 1), 48: (0, 1), 61: (0, 0),
    },
    "3.3": {
        0: (0, 9), 1: (0, 13), 2: (0, 7), 3: (0, 12), 8: (0, 8), 9: (0, 8), 10: (0, 4), 15: (0, 5), 16: (0, 4),
        19: (0, 7), 20: (0, 6), 22: (0, 4), 23: (0, 4), 24: (0, 3), 26: (0, 3), 29: (0, 3), 30: (0, 3), 32: (0, 4),
        33: (0, 2), 35: (0, 4), 37: (0, 3), 44: (0, 1), 48: (0, 1), 61: (0, 0), 65: (0, 0),
    },
    "4.3": {  # 4.0 removed the oldest versions (KIP-896)
        0: (3, 13), 1: (4, 17), 2: (1, 10), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 15: (0, 6), 16: (0, 5),
        19: (2, 7), 20: (1, 6), 22: (0, 5), 23: (2, 4), 24: (0, 5), 26: (0, 5), 29: (1, 3), 30: (1, 3), 32: (1, 4),
        33: (0, 2), 35: (1, 4), 37: (0, 3), 44: (0, 1), 48: (0, 1), 61: (0, 0), 65: (0, 0),
    },
}  # fmt: skip


def number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_release_has_what_it_has_by_the_table(row: Capability, release: str) -> None:
    has = not row.absent(RELEASES[release])
    assert has == (number(release) >= number(row.since))


@pytest.mark.parametrize("release", RELEASES)
def test_every_supported_release_has_what_is_needed(release: str) -> None:
    lacking = {row.name: row for row in TABLE if row.absent(RELEASES[release])}
    assert not [name for name, row in lacking.items() if row.weight is Weight.NEEDED]


def test_no_guarantee_is_lost_on_todays_brokers() -> None:
    assert not [row.name for row in TABLE if row.absent(RELEASES["4.3"])]


def test_the_way_with_the_fewest_lacks_is_named() -> None:
    (row,) = (one for one in TABLE if one.name == "changing configs")
    assert row.absent({}) == ("IncrementalAlterConfigs",)
    assert row.absent({33: (0, 1), 32: (0, 2)}) == ()
    (history,) = (one for one in TABLE if one.name == "history of the log")
    assert history.absent({1: (0, 11), 23: (0, 3)}) == ()
    assert history.absent({1: (0, 11)}) == ("Fetch 12 or newer",)


def test_each_row_says_what_is_lost_and_what_is_done() -> None:
    assert len({row.name for row in TABLE}) == len(TABLE)
    for row in TABLE:
        assert min(len(row.lost), len(row.instead), len(row.sides)) > 0, row.name
        assert all(one.versions for way in row.ways for one in way), row.name
