"""Each right that a running mirror no longer asks for is missing at its start: it is named, the other flow goes on, and
the flow recovers by itself.

One mirror with two flows on two secured clusters is started twice. First the target has nothing of the flow, and every
right to create is missing. Then all is there, and the other rights are missing that `test_grants_taken_away.py` does
not take away. What is named is given back, and is named no longer, until nothing is missing.
"""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from engine.checks.grants import needed_grants
from engine.config.config import load_config
from policies.grants.planning import Grant, GrantNeed
from policies.grants.rights import IMPLIED, operation_name
from policies.model import FlowName
from policies.sync.acl_sync import Operation
from tests.harness import groups as stock
from tests.harness.admin import create_topics
from tests.harness.load import numbered, produce
from tests.harness.ray_cluster import RayCluster
from tests.harness.shell import Shell
from tests.integration.test_grants import COPIED, FLOW, GROUP, TOPIC, Pair, running_grants, secured_pair
from tests.integration.test_grants_taken_away import BACK, MORE, UNSEEN, Key, Live, key_of, named

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full, pytest.mark.fault]

CLUSTER, CLICKS, COPY = "kafka-cluster", "clicks-0", "left.clicks-0"
EACH = 10
SILENT: dict[Key, str] = {
    ("left", CLUSTER, Operation.DESCRIBE): "`check` does not compare sizes with free disk space",
    ("left", CLUSTER, Operation.DESCRIBE_CONFIGS): "no warnings of quotas and small buffers",
    ("right", CLUSTER, Operation.DESCRIBE): "`check` does not compare sizes with free disk space",
    ("right", "raymirror-map.left.internal", Operation.READ): "so few records are in the tails of positions: no blocks",
}
"""Rights that this flow does not need: `check --grants` says which warnings their lack leaves out."""
EVENTS = ("right", "raymirror-events.left.internal", Operation.READ)
"""The mirror writes events; only a command reads them. Without this right and Write it would not see the topic."""
MM2_GROUP = ("right", "left-mm2", Operation.DESCRIBE)
"""Nobody asks for it if the offsets topic is hidden, as at the second start."""
OTHERWISE: dict[Key, str] = {
    ("left", "clicks", Operation.READ): "pattern 'clicks.*' matches no topic of cluster 'left'",
    ("right", CLUSTER, Operation.DESCRIBE_CONFIGS): "producer.id.expiration.ms cannot be read",
}
"""Texts that do not name the right as others do: a topic without Describe is not seen; each broker is named."""


def is_named(grant: Grant, text: str) -> bool:
    """Whether a text names a missing right, or one that includes it, or the topics that may not be created."""
    other = OTHERWISE.get(key_of(grant))
    if other is not None:
        return other in text
    wider = [msgspec.structs.replace(grant, operation=one) for one in IMPLIED.get(grant.operation, ())]
    many = f"does not let raymirror {operation_name(grant.operation).lower()} topic"
    return any(named(one, text) for one in (grant, *wider)) or (
        many in text and grant.name.name in text and f"grant {operation_name(grant.operation)} on the cluster" in text
    )


class Start:
    """One start of the mirror without some rights."""

    def __init__(self, pair: Pair, live: Live, shell: Shell, grants: Iterable[Grant]) -> None:
        self._pair, self._live, self._mirror, self._shell = pair, live, live.mirror, shell
        self._missing = {key_of(one): one for one in grants}

    async def run(self, clicks: int, committed: int) -> None:
        """Start, give back what is named until nothing is missing; then the flow is well.

        `clicks`: the records of that topic then, of which some are new; `committed`: where the group stands there.
        """
        for grant in self._missing.values():
            await self._pair.desks[grant.cluster].take([grant])
        self._mirror.start()
        await self._live.until_other_flow_goes_on()
        await produce(self._live.left, CLICKS, 0, numbered(EACH, first=clicks - EACH))
        await stock.commit(self._live.left, GROUP, CLICKS, {0: committed})
        await self._live.commit()
        while self._missing.keys() - SILENT.keys() - {EVENTS}:
            keys = await self._mirror.until(self._named, f"one of these is named: {[*self._missing]}")
            await self._live.until_other_flow_goes_on()
            await self._give_back(keys)
        await self._mirror.until_copied(FLOW, TOPIC, COPIED, self._live.records)
        await self._mirror.until_copied(FLOW, CLICKS, COPY, clicks)
        await self._mirror.until_equal(FLOW, GROUP, TOPIC, COPIED)
        await self._mirror.until_equal(FLOW, GROUP, CLICKS, COPY)
        await self._mirror.until(self._is_well, "nothing is missing any more")
        if EVENTS in self._missing:
            read = await asyncio.to_thread(self._shell, "events", "--since", "1h")
            assert is_named(self._missing[EVENTS], read.stderr), read
        await self._give(list(self._missing))
        self._mirror.end()

    async def _named(self) -> list[Key]:
        assert self._mirror.live is not None
        said = self._mirror.live.said()
        asked = {key: grant for key, grant in self._missing.items() if key not in SILENT}
        return [key for key, grant in asked.items() if is_named(grant, said) or self._says(grant)]

    def _says(self, grant: Grant) -> bool:
        return self._live.says(lambda text: is_named(grant, text))

    def _stands(self, grant: Grant) -> bool:
        assert self._mirror.live is not None
        status = self._mirror.live.look()
        return is_named(grant, json.dumps({key: value for key, value in status.items() if key != "events"}))

    async def _give_back(self, keys: list[Key]) -> None:
        """Give rights back: the status no longer names them."""
        given = [self._missing[key] for key in keys]
        await self._give(keys)

        async def is_quiet() -> bool:
            return not any(self._stands(grant) for grant in given)

        await self._mirror.until(is_quiet, f"these are named no longer: {keys}")

    async def _give(self, keys: list[Key]) -> None:
        for key in keys:
            grant = self._missing.pop(key)
            await self._pair.desks[grant.cluster].give([grant])

    async def _is_well(self) -> bool:
        return not self._live.complains()


async def test_each_right_that_is_missing_at_a_start_is_named_and_the_flow_recovers_by_itself(
    shared_ray: RayCluster, tmp_path: Path
) -> None:
    async with secured_pair(tmp_path) as pair:
        await create_topics(pair.clusters["left"], {TOPIC: 1, CLICKS: 1})
        await create_topics(pair.clusters["right"], {BACK: 1})
        mirror = pair.mirror(f"{TOPIC}, clicks.*", shared_ray, tmp_path, MORE)
        config = tmp_path / "mm2.properties"
        await pair.give(running_grants(config))
        found = load_config(config)
        one_flow = msgspec.structs.replace(found, flows=(found.flow(FlowName("left", "right")),))
        grants = {key_of(one): one for one in needed_grants(one_flow) if one.need is not GrantNeed.COMMAND}
        first = {key for key in grants if key[2] is Operation.CREATE} | {EVENTS, MM2_GROUP}
        then = UNSEEN.keys() - first
        assert first | then <= grants.keys()
        await stock.commit(pair.clusters["right"], "someone", BACK, {0: 0})  # else nobody asks for MM2's group there
        live, shell = Live(pair, mirror, shared_ray, tmp_path), Shell(tmp_path, shared_ray.env)
        try:
            await Start(pair, live, shell, [grants[key] for key in grants if key in first]).run(EACH, 2)
            # In the middle of what the mirror before this one copied.
            await Start(pair, live, shell, [grants[key] for key in grants if key in then]).run(2 * EACH, 5)
        finally:
            mirror.close()
