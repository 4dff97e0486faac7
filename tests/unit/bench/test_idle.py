"""What the bench `idle` reads from the output of a mirror."""

from bench.idle import _times, lanes_at_rest, watchers

OUTPUT = """\
info: r->target: bench-idle-1: resumes at source offset 1, target offset 1 (position, 0 records in the tail)
info: r->target: bench-idle-watched-r-1: resumes at source offset 1, target offset 1 (position, 0 records in the tail)
running: r->target running, 3 topics, 9 partitions, lag 4, 0.5 s behind, 10 records, 1/s, 0.0 MiB/s, 0 stopped
running: r->target running, 3 topics, 10,011 partitions, lag 0, 0.0 s behind, 10 records, 1/s, 0.0 MiB/s, 0 stopped
"""


def test_a_mirror_is_at_rest_with_the_partitions_of_its_last_line_without_lag() -> None:
    assert lanes_at_rest(OUTPUT) == 10_011
    assert lanes_at_rest(OUTPUT.replace("lag 0", "lag 1")) == 0


def test_partitions_that_resume_nowhere_are_watched() -> None:
    assert watchers(OUTPUT, "bench-idle-watched-r", 3) == [0, 2]
    assert watchers("", "bench-idle-watched-r", 2) == [0, 1]


def test_without_wakes_there_are_no_figures() -> None:
    assert _times("wake", []) == {}
    assert _times("wake", [3.0, 1.0, 2.0]) == {"wake_ms": 2.0, "wake_p99_ms": 3.0}
