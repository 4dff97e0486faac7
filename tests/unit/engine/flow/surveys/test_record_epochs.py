"""The leader epoch of the record before an offset, in logs that have had several leaders."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.flow.ports.ports import EpochEnd, Leader
from engine.flow.surveys.record_epochs import epochs_before
from policies.model import TopicPartition
from tests.fakes.cluster import FakeCluster

HERE = TopicPartition("t", 0)


class Epochs(FakeCluster):
    """A cluster whose log began each epoch at an offset, as a broker's cache has them (LeaderEpochFileCache)."""

    def __init__(self, begins: Mapping[int, int], end: int) -> None:
        super().__init__("A")
        self.begins, self.end = begins, end
        self.leader[HERE] = Leader(1, max(begins), "id")

    async def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], led: Mapping[TopicPartition, Leader] | None = None
    ) -> dict[TopicPartition, EpochEnd]:
        assert led is None
        return {one: self._ends_at(epoch) for one, epoch in epochs.items()}

    def _ends_at(self, asked: int) -> EpochEnd:
        held = [epoch for epoch in self.begins if epoch <= asked]
        later = [at for epoch, at in self.begins.items() if epoch > asked]
        if not held:
            return EpochEnd(asked, min(later))
        return EpochEnd(max(held), min(later, default=self.end))


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5)), min_size=1, max_size=6), st.data())
async def test_it_is_that_of_the_last_record(stints: list[tuple[int, int]], data: st.DataObject) -> None:
    begins, epoch_of, epoch = dict[int, int](), list[int](), -1
    for step, records in stints:
        epoch += step
        begins[epoch] = len(epoch_of)
        epoch_of += [epoch] * records
    offset = data.draw(st.integers(0, len(epoch_of)))
    found = await epochs_before(Epochs(begins, len(epoch_of)), {HERE: offset})
    assert found == ({HERE: epoch_of[offset - 1]} if offset else {})


@pytest.mark.parametrize("answer", [{}, {HERE: EpochEnd(-1, -1)}, {HERE: EpochEnd(5, 3)}])
async def test_what_no_broker_tells_is_left_out(answer: dict[TopicPartition, EpochEnd]) -> None:
    cluster = FakeCluster("A")
    cluster.leader[HERE] = Leader(1, 5, "id")

    async def silent(
        epochs: Mapping[TopicPartition, int], led: Mapping[TopicPartition, Leader] | None = None
    ) -> dict[TopicPartition, EpochEnd]:
        assert led is None
        return {one: answer[one] for one in answer.keys() & epochs.keys()}

    cluster.epoch_ends = silent  # type: ignore[method-assign]
    assert await epochs_before(cluster, {HERE: 4, TopicPartition("gone", 0): 2}) == {}
