"""What a proof reads of both clusters before it reads records."""

from engine.flow.ports.ports import Leader
from engine.jobs.proof.snapshot import topic_ids
from policies.model import LaneName, TopicPartition

ORDERS, COPY, CLICKS = TopicPartition("orders", 0), TopicPartition("A.orders", 0), TopicPartition("clicks", 0)
HERE, THERE = Leader(node=1, epoch=4, topic_id="id-on-a"), Leader(node=7, epoch=0, topic_id="id-on-b")


def test_a_copy_that_keeps_the_name_of_its_topic_has_an_id_of_its_own() -> None:
    """Refused records are known by the id of the source topic: with the copy's they would count as differences."""
    kept = LaneName(ORDERS, ORDERS)
    assert topic_ids([kept], {ORDERS: HERE}, {ORDERS: THERE}) == {kept: ("id-on-a", "id-on-b")}


def test_a_lane_of_which_one_side_is_missing_has_no_ids() -> None:
    whole, alone, unmade = LaneName(ORDERS, COPY), LaneName(CLICKS, CLICKS), LaneName(COPY, COPY)
    led, copies = {ORDERS: HERE, CLICKS: HERE}, {COPY: THERE}
    assert topic_ids([whole, alone, unmade], led, copies) == {whole: ("id-on-a", "id-on-b")}
