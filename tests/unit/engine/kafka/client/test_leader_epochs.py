"""Brokers with old metadata: the newest leader that any of them reported stays known."""

from uuid import UUID

import pytest

from engine.kafka.client.leader_epochs import LeaderEpochs
from engine.kafka.client.metadata import NO_ID, PartitionMeta, TopicMeta

ID, OTHER = UUID(int=7), UUID(int=8)


def topic(*epochs: int, topic_id: UUID = ID) -> TopicMeta:
    """A topic whose partitions are led at these epochs, each by the broker of the same number."""
    led = {index: PartitionMeta(epoch, epoch, (1, 2)) for index, epoch in enumerate(epochs)}
    return TopicMeta(0, topic_id, False, led)


def leaders(found: TopicMeta) -> list[int]:
    return [meta.leader for _, meta in sorted(found.partitions.items())]


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ([topic(5), topic(4)], [5]),
        ([topic(5), topic(5)], [5]),
        ([topic(5), topic(6)], [6]),
        ([topic(5, 2), topic(4, 3)], [5, 3]),
        ([topic(5, 2), topic(5)], [5, 2]),
        ([topic(5), topic(4), topic(4)], [5]),
    ],
)
def test_an_older_epoch_of_the_same_topic_is_not_believed(told: list[TopicMeta], known: list[int]) -> None:
    epochs = LeaderEpochs()
    assert leaders([epochs.newest("t", one) for one in told][-1]) == known


def test_a_topic_that_was_made_anew_begins_anew() -> None:
    epochs = LeaderEpochs()
    epochs.newest("t", topic(5))
    assert leaders(epochs.newest("t", topic(0, topic_id=OTHER))) == [0]
    assert leaders(epochs.newest("t", topic(1, topic_id=OTHER))) == [1]


def test_a_topic_without_an_id_may_have_been_made_anew() -> None:
    epochs = LeaderEpochs()
    epochs.newest("t", topic(5, topic_id=NO_ID))
    assert leaders(epochs.newest("t", topic(0, topic_id=NO_ID))) == [0]


def test_what_no_broker_of_all_knows_is_forgotten() -> None:
    epochs = LeaderEpochs()
    epochs.newest("t", topic(9, 2))
    before = epochs.epochs("t")
    epochs.all_say("t", [topic(4, 2), topic(5, 2)], before)
    assert leaders(epochs.newest("t", topic(4, 1))) == [5, 2]


@pytest.mark.parametrize("told", [[topic(4), topic(9)], [topic(4), topic(5, topic_id=OTHER)]])
def test_what_one_broker_knows_or_another_topic_is_no_reason_to_forget(told: list[TopicMeta]) -> None:
    epochs = LeaderEpochs()
    epochs.newest("t", topic(9))
    epochs.all_say("t", told, epochs.epochs("t"))
    assert leaders(epochs.newest("t", topic(5))) == [9]


def test_what_became_known_while_they_were_asked_is_kept() -> None:
    epochs = LeaderEpochs()
    epochs.newest("t", topic(5))
    before = epochs.epochs("t")
    epochs.newest("t", topic(6))
    epochs.all_say("t", [topic(5), topic(5)], before)
    assert leaders(epochs.newest("t", topic(5))) == [6]
    epochs.all_say("u", [topic(5)], epochs.epochs("u"))
    assert leaders(epochs.newest("u", topic(4))) == [4]


def test_topics_that_are_gone_are_forgotten() -> None:
    epochs = LeaderEpochs()
    epochs.newest("t", topic(5))
    epochs.newest("u", topic(5))
    epochs.keep(["u"])
    assert leaders(epochs.newest("t", topic(4))) == [4]
    assert leaders(epochs.newest("u", topic(4))) == [5]
