"""Finds groups that would skip records on the target: its retention has deleted them, and the source still has them."""

from collections.abc import Mapping, Sequence

from engine.core.offset_map.offset_map import CLAMPED
from engine.flow.groups.translations import TranslatedOffset, Translations
from engine.flow.lane.bisection import offsets_by_leaders
from engine.flow.ports.ports import EARLIEST, Cluster, Offsets
from policies.model import TopicPartition


async def skipping(
    source: Cluster, translations: Translations, places: Mapping[str, Sequence[TranslatedOffset]]
) -> set[tuple[str, TopicPartition]]:
    """Return the groups and partitions that would skip records on the target which the source still has.

    A place that was raised to the target's log start skips what lay below it. That does not count where the source has
    deleted it too, or where it was only markers. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal.
    """
    raised = [(group, row) for group, rows in places.items() for row in rows if row.how == CLAMPED]
    if not raised:
        return set()
    led = await source.leaders(sorted({row.lane for _, row in raised}))
    starts = await offsets_by_leaders(source, led, EARLIEST)
    asked: dict[str, Offsets] = {}
    for group, row in raised:
        asked.setdefault(group, {})[row.lane] = (max(row.source_offset, starts.get(row.lane, 0)), "")
    return {
        (group, row.lane)
        for group, rows in (await translations.places(asked)).items()
        for row in rows
        if row.how == CLAMPED and not translations.has_read_all(row.lane, row.source_offset)
    }
