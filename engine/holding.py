"""Composition: a flow held by a command, in the usual way: for a while it is the mirror that has the flow."""

from asyncio import TaskGroup
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from engine.settings import FlowConfig, MirrorConfig
from engine.state import Deployment, Holder
from engine.state_keeper import StateKeeper
from engine.tasks import first_cause


@asynccontextmanager
async def held(
    config: MirrorConfig, flow: FlowConfig, holder: Holder, known_dead: Callable[[Deployment], bool]
) -> AsyncIterator[StateKeeper]:
    """Take a flow, renew its lease while the block runs, and give it back at its end.

    Raises FlowHeld where a mirror lives that has it, StateTaken where one takes it meanwhile (the block is cancelled),
    and what else `StateKeeper.open` raises.
    """
    keeper = StateKeeper(config, flow, holder, known_dead)
    try:
        await keeper.open()
        async with TaskGroup() as group:
            renewing = group.create_task(keeper.run())
            yield keeper
            renewing.cancel()
    except BaseExceptionGroup as failures:
        raise first_cause(failures) from None
    finally:
        await keeper.close()
