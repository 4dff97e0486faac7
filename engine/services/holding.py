"""Composition: a flow held by a command, in the usual way: for a while it is the mirror that has the flow."""

from asyncio import TaskGroup
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from engine.base.tasks import first_cause
from engine.config.settings import FlowConfig, MirrorConfig
from engine.services.state_service import StateService
from engine.state.state import Deployment, StateHolder


@asynccontextmanager
async def held(
    config: MirrorConfig, flow: FlowConfig, holder: StateHolder, known_dead: Callable[[Deployment], bool]
) -> AsyncIterator[StateService]:
    """Take a flow, renew its lease while the block runs, and give it back at its end.

    Raises FlowHeld where a mirror lives that has it, StateTaken where one takes it meanwhile (the block is cancelled),
    and what else `StateService.open` raises.
    """
    service = StateService(config, flow, holder, known_dead)
    try:
        await service.open()
        async with TaskGroup() as group:
            renewing = group.create_task(service.run())
            yield service
            renewing.cancel()
    except BaseExceptionGroup as failures:
        raise first_cause(failures) from None
    finally:
        await service.close()
