"""The configuration of the reverse flow, derived from a file that enables only the flow."""

from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from engine.config.file.reversed_flow import reversed_properties, reversed_settings, reversed_text
from policies.model import FlowName

FLOW = FlowName("A", "B")
TEXT = """clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
# A->B.enabled = false
A->B.enabled = true
A->B.topics = orders.*
A->B.groups = readers
B->A.groups = others
replication.policy.class = IdentityReplicationPolicy
"""


def test_settings_of_the_flow_become_those_of_its_reverse() -> None:
    assert reversed_settings(parse_properties(TEXT, "f"), FLOW) == {
        "A->B.enabled": "false",
        "B->A.enabled": "true",
        "B->A.topics": "orders.*",
    }


def test_the_reverse_flow_can_be_read() -> None:
    (flow,) = read_config(reversed_properties(parse_properties(TEXT, "f"), FLOW)).flows
    assert flow.name == FlowName("B", "A")
    assert flow.topics == ("orders.*",)
    assert flow.groups.include == ("others",)


def test_a_text_is_turned_and_keeps_everything_else() -> None:
    turned = reversed_text(TEXT, reversed_settings(parse_properties(TEXT, "f"), FLOW))
    assert turned.replace("A->B.enabled = false\nA->B.topics", "A->B.enabled = true\nA->B.topics") == (
        TEXT + "B->A.enabled = true\nB->A.topics = orders.*\n"
    )
    (flow,) = read_config(parse_properties(turned, "g")).flows
    assert flow.name == FlowName("B", "A")
    assert parse_properties(turned, "g").traps == ()


def test_a_text_that_is_turned_again_does_not_grow() -> None:
    back = FlowName("B", "A")
    once = reversed_text(TEXT, reversed_settings(parse_properties(TEXT, "f"), FLOW))
    text = once
    for flow in (back, FLOW) * 2:
        text = reversed_text(text, reversed_settings(parse_properties(text, "g"), flow))
    assert text == once
    twice = f"{once}B->A.enabled = true\n"
    assert reversed_text(twice, {"B->A.enabled": "false"}).count("B->A.enabled") == 1
