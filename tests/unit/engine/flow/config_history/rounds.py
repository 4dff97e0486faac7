"""Rounds of config sync as the history sees them, from plain overrides of both sides."""

from collections.abc import Iterable, Mapping

from engine.flow.config_history.advance import HistoryFlow, HistoryStep, SeenRound, advance
from engine.flow.config_history.expected import HistoryRules
from engine.flow.config_history.look import ConfigLook, DefaultValue, SideLook, Values
from engine.flow.config_history.rows import ConfigValueRow, DriftRow, SourceChangeRow
from engine.flow.config_history.state import ConfigOf, HistoryState, restored, stored_value
from engine.flow.config_history.values import WriteTried
from policies.model import FlowName
from policies.naming import DefaultNaming
from policies.selection import TopicSelection
from policies.sync.topic_configs import ConfigRules

FLOW = FlowName("A", "B")
KAFKA = {"retention.ms": frozenset({DefaultValue("604800000", "kafka")})}


def history_flow(*, syncs: bool = True, rules: ConfigRules | None = None) -> HistoryFlow:
    return HistoryFlow(
        name=FLOW,
        selection=TopicSelection(FLOW, DefaultNaming(), [".*"]),
        rules=HistoryRules(configs=rules or ConfigRules(), syncs=syncs),
    )


def side(topics: Mapping[str, Values], unread: Iterable[str] = ()) -> SideLook:
    return SideLook(topics=dict(topics), defaults=KAFKA, unread=frozenset(unread))


def look(source: Mapping[str, Values], copies: Mapping[str, Values], unread: Iterable[str] = ()) -> ConfigLook:
    """Make a look; `unread`: copies that could not be read."""
    return ConfigLook(source=side(source), copies=side(copies, unread))


class Days:
    """The history of a flow, round after round, one second each; keeps every row as the tables would."""

    def __init__(self, flow: HistoryFlow | None = None) -> None:
        self.flow = flow or history_flow()
        self.state: HistoryState | None = None
        self.at_ms = 0
        self.values: list[ConfigValueRow] = []
        self.changes: list[SourceChangeRow] = []
        self.drift: list[DriftRow] = []

    def round(
        self,
        source: Mapping[str, Values],
        copies: Mapping[str, Values],
        tried: Mapping[tuple[str, str], WriteTried] | None = None,
        conflicts: Mapping[tuple[str, str], str] | None = None,
        unread: Iterable[str] = (),
    ) -> HistoryStep:
        self.at_ms += 1_000
        seen = SeenRound(
            began_ms=self.at_ms - 100,
            at_ms=self.at_ms,
            written_ms=self.at_ms + 50,
            look=look(source, copies, unread),
            tried={ConfigOf(*place): one for place, one in (tried or {}).items()},
            conflicts={ConfigOf(*place): why for place, why in (conflicts or {}).items()},
        )
        step = advance(self.flow, self.state, seen)
        self.state = step.state
        self.values += step.rows.values
        self.changes += step.rows.changes
        self.drift += step.rows.drift
        return step

    def restored(self) -> HistoryState | None:
        """Return the state as a process sees it that starts now."""
        return restored(map(stored_value, self.values), self.changes, self.drift)

    def restart(self) -> None:
        self.state = self.restored()

    @property
    def last_drift(self) -> list[DriftRow]:
        """The drift as a reader of the table sees it: of rows of one thing the last one."""
        newest: dict[tuple[str, str, int], DriftRow] = {}
        for row in sorted(self.drift, key=lambda one: one.updated_ms):
            newest[row.topic, row.key, row.seen_ms] = row
        return list(newest.values())

    @property
    def last_changes(self) -> list[SourceChangeRow]:
        newest: dict[tuple[str, str, int], SourceChangeRow] = {}
        for row in sorted(self.changes, key=lambda one: one.updated_ms):
            newest[row.topic, row.key, row.seen_ms] = row
        return list(newest.values())
