"""Rules of bandwidth and priority, and their syntax."""

import pytest

from policies.traffic import Priority, TrafficRules, parse_bandwidth, parse_priorities


def rules(bandwidth: str = "", priorities: str = "") -> TrafficRules:
    return TrafficRules(
        parse_bandwidth(entry.strip() for entry in bandwidth.split(",") if entry),
        parse_priorities(entry.strip() for entry in priorities.split(",") if entry),
    )


def test_a_topic_has_the_limit_of_its_first_pattern_and_that_of_the_flow() -> None:
    found = rules(r"100, logs\..*@20, .*s@30")
    said = {rule.pattern: rule.said for rule in found.bandwidth}
    assert [said[one] for one in found.limits_of("logs.a")] == [r"logs\..*", ""]
    assert [said[one] for one in found.limits_of("clicks")] == [".*s", ""]
    assert [said[one] for one in found.limits_of("x")] == [""]
    assert rules("logs@5").limits_of("x") == ()


def test_a_pattern_may_have_an_at_sign() -> None:
    (rule,) = parse_bandwidth(["a@b@7"])
    assert (rule.said, rule.bytes_per_s) == ("a@b", 7)


@pytest.mark.parametrize("entry", ["x", "x@", "@", "x@-1", "x@1.5", "1e6", "x@10MB", "0", "x@0", "x@" + "9" * 19])
def test_a_limit_is_a_whole_number_above_zero(entry: str) -> None:
    with pytest.raises(ValueError, match=r"bytes per second|lets nothing through"):
        parse_bandwidth([entry])


@pytest.mark.parametrize("entries", [["1", "2"], ["x@1", "x@2"]])
def test_two_limits_of_the_same_topics_are_refused(entries: list[str]) -> None:
    with pytest.raises(ValueError, match="second limit"):
        parse_bandwidth(entries)


def test_topics_are_normal_unless_a_pattern_says_otherwise() -> None:
    found = rules("", "orders.*@HIGH, .*@low")
    assert found.priority_of("orders-eu") is Priority.HIGH
    assert found.priority_of("x") is Priority.LOW
    assert rules().priority_of("x") is Priority.NORMAL
    assert Priority.HIGH < Priority.NORMAL < Priority.LOW


@pytest.mark.parametrize("entry", ["x", "high", "x@", "x@urgent", "@"])
def test_a_class_needs_a_pattern_and_a_known_word(entry: str) -> None:
    with pytest.raises(ValueError, match="does not end in @high, @normal, @low"):
        parse_priorities([entry])


def test_a_part_of_the_rules_keeps_everything_else() -> None:
    found = rules("100, x@20", "x@high")
    part = found.shared({"": 50, found.bandwidth[1].pattern: 5})
    assert [rule.bytes_per_s for rule in part.bandwidth] == [50, 5]
    assert (part.priorities, part.bandwidth[1].said) == (found.priorities, "x")
