"""The micro bench of the supervisor's step runs, on a small mirror."""

from bench.micro.step import measure


def test_every_kind_of_step_is_measured() -> None:
    found = measure(partitions=200, copiers=3, steps=50)
    assert {kind: figures["count"] for kind, figures in found.items()} == {
        "start": 3,
        "ordinary": 45,
        "discovery": 1,
        "death": 1,
        "takeover": 5,
        "status": 50,
        "status_lanes": 50,
    }
