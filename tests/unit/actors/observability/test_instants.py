"""Points in time on a command line."""

import pytest

from actors.observability.instants import BadInstant, clock_text, instant_ms

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("30s", NOW_MS - 30_000),
        (" 10m ", NOW_MS - 600_000),
        ("2 h", NOW_MS - 7_200_000),
        ("1d", NOW_MS - 86_400_000),
        ("2027-01-15T08:00:00Z", NOW_MS),
        ("2027-01-15T08:00:00", NOW_MS),
        ("2027-01-15T10:00:00+02:00", NOW_MS),
        ("2027-01-15", NOW_MS - 8 * 3_600_000),
    ],
)
def test_instants(text: str, ms: int) -> None:
    assert instant_ms(text, NOW_MS) == ms


@pytest.mark.parametrize("text", ["", "soon", "10", "10 minutes", "-5m", "2027-13-01"])
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadInstant, match="10m"):
        instant_ms(text, NOW_MS)


def test_a_time_reads_as_utc() -> None:
    assert clock_text(NOW_MS + 999) == "2027-01-15T08:00:00Z"
