"""Lets a command own a flow for a while, in the same way as a mirror owns it."""

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
    """Take a flow, renew its lease while the block runs, and give it back at the end.

    Raises FlowHeld if a living mirror owns the flow, StateTaken if a mirror takes it during the block (which is
    cancelled), and what else `StateService.open` raises.
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
