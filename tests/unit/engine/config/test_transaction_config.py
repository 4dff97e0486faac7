"""MM2's keys of exactly-once source support."""

import pytest

from engine.base.errors import ConfigError
from engine.services.runner import options_for
from tests.unit.engine.config_files import flow, mirror

ENABLED = "B.exactly.once.source.support = enabled\n"


@pytest.mark.parametrize(
    ("lines", "commit_s"),
    [
        ("", 0.0),
        ("B.exactly.once.source.support = disabled\n", 0.0),
        ("B.exactly.once.source.support = preparing\n", 0.0),
        ("B.exactly.once.source.support = ENABLED\n", 1.0),
        ("exactly.once.source.support = enabled\nA.exactly.once.source.support = enabled\n", 0.0),
        (ENABLED + "transaction.boundary = poll\ntransaction.boundary.interval.ms = 7000\n", 1.0),
        (ENABLED + "transaction.boundary = Interval\n", 30.0),
        (ENABLED + "transaction.boundary = interval\nB.offset.flush.interval.ms = 2000\n", 2.0),
        (ENABLED + "A->B.transaction.boundary = interval\ntransaction.boundary.interval.ms = 250\n", 0.25),
        (ENABLED + "exactly.once.support = required\n", 1.0),
        ("transaction.boundary = connector\n", 0.0),
    ],
)
def test_when_a_transaction_ends(lines: str, commit_s: float) -> None:
    found = flow(lines)
    assert found.commit_s == commit_s
    assert options_for(found, "d").commit_s == commit_s


@pytest.mark.parametrize(("given_ms", "used_s"), [(50, 0.1), (60_000, 30.0)])
def test_an_interval_that_is_not_used_is_named(given_ms: int, used_s: float) -> None:
    lines = f"{ENABLED}transaction.boundary = interval\ntransaction.boundary.interval.ms = {given_ms}\n"
    assert flow(lines).commit_s == used_s
    assert any(one.key == "transaction.boundary.interval.ms" for one in mirror(lines).warnings)


def test_what_the_mode_means_is_noted() -> None:
    (note,) = [one for one in mirror(ENABLED).notes if one.key == "B.exactly.once.source.support"]
    assert "in its own transactions" in note.what
    (note,) = [
        one
        for one in mirror("B.exactly.once.source.support = preparing\n").notes
        if one.key == "B.exactly.once.source.support"
    ]
    assert "so this means disabled" in note.what


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        ("B.exactly.once.source.support = on\n", "B.exactly.once.source.support"),
        (ENABLED + "transaction.boundary = connector\n", "transaction.boundary"),
        (ENABLED + "transaction.boundary = always\n", "transaction.boundary"),
        (
            ENABLED + "exactly.once.support = required\nA.consumer.isolation.level = read_uncommitted\n",
            "exactly.once.support",
        ),
    ],
)
def test_what_mm2_refuses_is_refused(lines: str, key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        flow(lines)
    assert key in str(refused.value)
