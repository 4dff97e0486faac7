"""Fetch sessions (KIP-227): requests, the meaning of answers, and a comparison with a model of the broker."""

import random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.flow.ports.ports import PartitionFetch
from engine.kafka.client.fetch_session import FetchPlan, FetchSession
from policies.model import TopicPartition
from tests.unit.engine.kafka.session_broker import Broker, Ends

IDS = {name: UUID(int=number) for number, name in enumerate("tuvw", 1)}
LAST_EPOCH = 2**31 - 1


def want(partition: int, offset: int = 0, topic: str = "t", epoch: int = 1, max_bytes: int = 100) -> PartitionFetch:
    return PartitionFetch(TopicPartition(topic, partition), offset, epoch, -1, max_bytes)


def opened(
    *wanted: PartitionFetch, session_id: int = 7, ids: dict[str, UUID] = IDS, ids_spoken: bool = True
) -> FetchSession:
    session = FetchSession(ids_spoken=ids_spoken)
    session.plan(wanted, ids)
    assert not session.on_answer(0, session_id)
    return session


def head(plan: FetchPlan) -> tuple[int, int, bool]:
    return plan.session_id, plan.epoch, plan.by_id


def test_the_first_fetch_is_whole_and_asks_for_a_session() -> None:
    session = FetchSession(ids_spoken=True)
    wanted = [want(0), want(1), want(0, topic="u")]
    assert session.plan(wanted, IDS) == FetchPlan(0, 0, True, wanted, ())


def test_nothing_changed_nothing_named() -> None:
    session = opened(want(0), want(1))
    for epoch in (1, 2, 3):
        assert session.plan([want(1), want(0)], IDS) == FetchPlan(7, epoch, True, [], ())
        assert not session.on_answer(0, 7)


@pytest.mark.parametrize("changed", [want(1, offset=5), want(1, epoch=2), want(1, max_bytes=7)])
def test_what_changed_on_our_side_is_named(changed: PartitionFetch) -> None:
    session = opened(want(0), want(1))
    assert session.plan([want(0), changed], IDS).named == [changed]
    session.on_answer(0, 7)
    assert session.plan([want(0), changed], IDS).named == []


def test_what_comes_is_named_and_what_goes_is_forgotten() -> None:
    session = opened(want(0), want(1), want(0, topic="u"))
    plan = session.plan([want(1), want(2), want(0, topic="v")], IDS)
    assert plan.named == [want(2), want(0, topic="v")]
    assert sorted(plan.forgotten) == [("t", 0), ("u", 0)]
    assert [session.topic_id(one.topic) for one in plan.forgotten] == [IDS["t"], IDS["u"]]
    assert session.names[IDS["v"].bytes] == "v"
    session.on_answer(0, 7)
    assert (session.asked(TopicPartition("t", 0)), session.asked(TopicPartition("t", 2))) == (False, True)
    assert session.plan([want(0), want(1), want(2), want(0, topic="v")], IDS).named == [want(0)]


def test_a_broker_without_a_slot_gets_whole_fetches_and_is_asked_again() -> None:
    session = FetchSession(ids_spoken=True)
    for _ in range(3):
        assert session.plan([want(0)], IDS) == FetchPlan(0, 0, True, [want(0)], ())
        assert not session.on_answer(0, 0)
    session.plan([want(0)], IDS)
    session.on_answer(0, 5)
    assert session.plan([want(0)], IDS) == FetchPlan(5, 1, True, [], ())


def test_a_single_fetch_opens_no_session() -> None:
    session = FetchSession(ids_spoken=True, lasting=False)
    for session_id in (0, 5, 0):
        assert head(session.plan([want(0)], IDS)) == (0, -1, True)
        session.on_answer(0, session_id)


def test_epochs_begin_at_1_again_after_the_last() -> None:
    session = opened(want(0))
    session._epoch = LAST_EPOCH
    assert session.plan([want(0)], IDS).epoch == LAST_EPOCH
    session.on_answer(0, 7)
    assert session.plan([want(0)], IDS).epoch == 1


@pytest.mark.parametrize(("code", "left"), [(70, 0), (71, 7), (100, 7), (103, 7), (106, 7)])
def test_a_session_that_is_gone_is_followed_by_a_whole_fetch(code: int, left: int) -> None:
    session = opened(want(0), want(1))
    session.plan([want(1, offset=3)], IDS)
    assert session.on_answer(code, 0)
    # An id that the broker may still have is closed by naming it with epoch 0.
    assert session.plan([want(1, offset=3)], IDS) == FetchPlan(left, 0, True, [want(1, offset=3)], ())
    assert not session.on_answer(0, 8)
    assert head(session.plan([want(1)], IDS)) == (8, 1, True)


def test_a_closed_session_is_not_named_again_when_there_was_no_slot_for_the_next() -> None:
    session = opened(want(0))
    session.plan([want(0)], IDS)
    session.on_answer(71, 0)
    assert head(session.plan([want(0)], IDS)) == (7, 0, True)
    session.on_answer(0, 0)
    assert head(session.plan([want(0)], IDS)) == (0, 0, True)


def test_other_errors_and_errors_without_a_session_are_the_callers() -> None:
    session = FetchSession(ids_spoken=True)
    session.plan([want(0)], IDS)
    assert not session.on_answer(71, 0)
    session = opened(want(0))
    session.plan([want(0)], IDS)
    assert not session.on_answer(29, 0)
    assert head(session.plan([want(0)], IDS)) == (7, 0, True)


@pytest.mark.parametrize("session_id", [0, 8])
def test_a_session_that_the_broker_ends_with_a_good_answer(session_id: int) -> None:
    session = opened(want(0))
    session.plan([want(0)], IDS)
    assert not session.on_answer(0, session_id)
    assert session.plan([want(0)], IDS) == FetchPlan(0, 0, True, [want(0)], ())


def test_topics_go_by_name_where_ids_are_not_spoken_or_not_known() -> None:
    assert not FetchSession(ids_spoken=False).plan([want(0)], IDS).by_id
    assert not FetchSession(ids_spoken=True).plan([want(0), want(0, topic="x")], IDS).by_id
    assert not FetchSession(ids_spoken=True).plan([want(0)], {"t": UUID(int=0)}).by_id
    session = opened(want(0), ids_spoken=False)
    assert session.plan([want(0, topic="x")], {}).named == [want(0, topic="x")]


def test_a_topic_without_an_id_ends_a_session_by_ids() -> None:
    session = opened(want(0))
    wanted = [want(0), want(0, topic="x")]
    assert session.plan(wanted, IDS) == FetchPlan(7, 0, False, wanted, ())
    session.on_answer(0, 8)
    assert head(session.plan(wanted, IDS)) == (8, 1, False)


def test_a_topic_created_again_ends_the_session() -> None:
    session = opened(want(0), want(1))
    again = {**IDS, "t": UUID(int=99)}
    assert session.plan([want(0), want(1)], again).named == []  # nobody wants it from elsewhere yet
    session.on_answer(0, 7)
    wanted = [want(0), want(1, offset=9)]
    assert session.plan(wanted, again) == FetchPlan(7, 0, True, wanted, ())
    assert (session.topic_id("t"), session.names) == (UUID(int=99), {UUID(int=99).bytes: "t"})


class World:
    """A client and a broker to which random things happen."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.broker = Broker()
        self.broker.logs = {TopicPartition(t, n): Ends(self.random.randrange(3), 0) for t in "tuv" for n in range(3)}
        self.ids = {name: IDS[name] for name in "tuv"}
        self.session = FetchSession(ids_spoken=True)
        self.wanted: dict[TopicPartition, PartitionFetch] = {}
        self.seen: dict[TopicPartition, Ends] = {}
        """What the client believes of the partitions that it asks for without a break."""

    def happen(self) -> None:
        """Change something at one of the sides."""
        one = self.random.choice(list(self.broker.logs))
        ends = self.broker.logs[one]
        match self.random.choice(["append", "append", "drop", "want", "want", "leave", "move", "epoch", "trouble"]):
            case "append":
                self.broker.logs[one] = ends._replace(high_watermark=ends.high_watermark + self.random.randrange(1, 4))
            case "drop":
                self.broker.logs[one] = ends._replace(log_start=min(ends.log_start + 1, ends.high_watermark))
            case "want":
                self.wanted.setdefault(one, PartitionFetch(one, ends.log_start, 0, -1, 2))
            case "leave":
                self.wanted.pop(one, None)
            case "move" if one in self.wanted:
                self.wanted[one] = PartitionFetch(one, self.random.randint(0, ends.high_watermark), 0, -1, 2)
            case "epoch" if one in self.wanted:
                known = self.wanted[one]
                epoch = self.random.randrange(3)
                self.wanted[one] = PartitionFetch(one, known.offset, epoch, epoch - 1, self.random.randrange(1, 4))
            case "trouble":
                self.trouble(one)
            case _:
                pass

    def trouble(self, one: TopicPartition) -> None:
        """Lose a session, a slot, an epoch, an id; or the connection, with all that the client knows of it."""
        match self.random.choice(["evict", "slots", "epoch", "lose", "again", "kind"]):
            case "evict":
                self.broker.sessions.clear()
            case "slots":
                self.broker.slots = self.random.randrange(3)
            case "epoch":
                for held in self.broker.sessions.values():
                    held.epoch += 1
            case "kind":
                for held in self.broker.sessions.values():
                    held.by_id = not held.by_id
            case "lose":
                self.session = FetchSession(ids_spoken=True)
                self.seen.clear()
            case _:
                self.ids[one.topic] = UUID(int=self.random.randrange(100, 1000))

    def fetch(self) -> bool:
        """Fetch once and check the answer; False where the session was gone."""
        wanted = list(self.wanted.values())
        self.random.shuffle(wanted)
        for gone in self.seen.keys() - self.wanted.keys():
            del self.seen[gone]
        plan = self.session.plan(wanted, self.ids)
        answer = self.broker.answer(plan)
        assert not (plan.epoch <= 0 and answer.error_code), "a whole fetch is always answered"
        if self.session.on_answer(answer.error_code, answer.session_id):
            assert plan.epoch > 0
            return False
        assert answer.error_code == 0
        for partition, told in answer.partitions.items():
            assert self.session.asked(partition)
            assert told.offset == self.wanted[partition].offset
            self.seen[partition] = told.ends
            if told.records:
                known = self.wanted[partition]
                self.wanted[partition] = PartitionFetch(partition, told.offset + told.records, known.leader_epoch, 0, 2)
        for partition, one in ((one.partition, one) for one in wanted):
            ends = self.broker.logs[partition]
            assert self.seen[partition] == ends, f"{partition} ends at {ends}, we were told {self.seen[partition]}"
            records = min(max(0, ends.high_watermark - one.offset), one.max_bytes)
            assert (answer.partitions[partition].records if partition in answer.partitions else 0) == records
        return True


@given(seed=st.integers(0, 2**32), steps=st.integers(1, 60))
def test_whatever_happens_the_broker_fetches_what_is_wanted_and_all_news_arrive(seed: int, steps: int) -> None:
    world = World(seed)
    for _ in range(steps):
        for _ in range(world.random.randrange(4)):
            world.happen()
        # A session that is gone costs one round: the next fetch is whole.
        if world.wanted:
            assert world.fetch() or world.fetch()
