"""Two clusters in memory with groups, and a keeper between them."""

from typing import Any

import pytest

from engine.core.mm2.mm2_records import Checkpoint, decode_checkpoint
from engine.flow.groups import away, group_commits, group_notes
from engine.flow.groups import sync_loop as group_keeper
from engine.flow.groups.map_chain import ChainedMaps
from engine.flow.groups.sync_loop import GroupOptions, GroupSyncLoop
from engine.flow.groups.translations import Translations
from engine.flow.topic_logs.checkpoints import CheckpointLog
from engine.flow.topic_logs.commit_reader import Hints, Seen
from policies.groups import GroupSelection
from policies.model import FlowName, TopicPartition
from policies.naming import DefaultNaming
from policies.selection import TopicSelection
from tests.fakes.cluster import FakeCluster
from tests.fakes.groups import FakeGroups
from tests.fakes.maps import FakeMaps

FLOW = FlowName("A", "B")
LANE, COPY = TopicPartition("t", 0), TopicPartition("A.t", 0)
CHECKPOINTS = "A.checkpoints.internal"


class Pair:
    """Source groups, target groups, maps and the target's logs; a keeper over them that may be made anew."""

    def __init__(self, **options: Any) -> None:
        self.source, self.target = FakeGroups("A"), FakeGroups("B")
        self.maps, self.cluster = FakeMaps(), FakeCluster("B")
        self.chained: ChainedMaps | None = None
        """The maps to translate by instead, with those of earlier stints."""
        self.log = self.cluster.source(*COPY)
        self.log.data(1000)
        self.cluster.target(CHECKPOINTS)
        self.options = options
        self.ours = True
        self.now_s = 1000.0
        self.reader: FakeReader | None = None
        self.keeper = self.restart()
        self.maps.tell(LANE, [(0, 0, 400), (500, 400, 100)], ends=(600, 500))

    def restart(self) -> GroupSyncLoop:
        """Make another keeper of the same flow, which has read nothing yet."""
        fast = {"refresh_s": 0.0, "commits": True, "commits_s": 0.0}
        options = GroupOptions(flow=FLOW, selection=GroupSelection(), **{**fast, **self.options})
        maps = self.chained or self.maps
        translations = Translations(TopicSelection(FLOW, DefaultNaming()), maps, self.cluster)
        checkpoints = CheckpointLog(self.cluster, CHECKPOINTS, 5.0)
        self.keeper = GroupSyncLoop(options, self.source, self.target, translations, checkpoints, self.reader)
        self.keeper.may_write = lambda: self.ours
        return self.keeper

    def checkpoints(self) -> list[Checkpoint]:
        """Return all that lies on the checkpoints topic."""
        records = self.cluster.targets[TopicPartition(CHECKPOINTS, 0)].records()
        return [decode_checkpoint(one.key, one.value) for one in records]

    def told(self) -> list[tuple[str, int, int]]:
        """Return (group, source, target) of each."""
        return [(one.group, one.source_offset, one.target_offset) for one in self.checkpoints()]

    def committed(self, group: str = "g") -> int | None:
        """Return what is stored for a group on the target."""
        found = self.target.stored.get(group, {}).get(COPY)
        return None if found is None else found[0]

    def events(self, kind: type) -> list[Any]:
        """Take the events of one kind."""
        return [event for event in self.keeper.take_events() if isinstance(event, kind)]

    def read_commits(self) -> "FakeReader":
        """Let another keeper take hints of commits from a reader that a test fills."""
        self.reader = FakeReader()
        self.restart()
        return self.reader

    def hold_clock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the keeper's time be `now_s`."""
        for module in (group_keeper, group_commits, group_notes, away):
            monkeypatch.setattr(module, "now_s", lambda: self.now_s)
        monkeypatch.setattr(group_keeper, "cpu_s", lambda: 0.0)


class FakeReader:
    """A reader of commits: what a test puts in is taken next."""

    def __init__(self) -> None:
        self.why_not, self.not_there = "", False
        self.seen: Seen = {}
        self.missed = True
        self.since_ms = -1

    def see(self, group: str, offsets: dict[TopicPartition, int], since_ms: int = 0) -> None:
        """Hint at commits."""
        self.seen.setdefault(group, {}).update(offsets)
        self.since_ms = since_ms

    def take(self) -> Hints:
        hints = Hints(self.seen, self.missed, self.since_ms)
        self.seen, self.missed, self.since_ms = {}, False, -1
        return hints

    async def wait(self, most_s: float) -> None:
        del most_s

    async def run(self) -> None:
        return None
