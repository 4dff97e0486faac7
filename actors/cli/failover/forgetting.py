"""Forgets the failover of a flow that no mirror runs, for `raymirror run CONFIG --forget-failover FLOW`."""

from actors.cli.failover.open_operation import refuse_forgetting
from actors.cli.failover.owning import holder_of, known_dead
from actors.model.states import NotFailedOver
from engine.config.settings import FlowConfig, MirrorConfig
from engine.services.holding import held
from engine.state.state import DESIRED, desired_of


async def forget_failover(config: MirrorConfig, flow: FlowConfig, mirror: str) -> None:
    """Make the failover of a flow a plain stop, so that the next start copies the flow again.

    `mirror`: the namespace of the mirror that is to run it. Raises OperationOpen while an operation of the flow or its
    reverse has not ended; ReverseFailedOver while a later failover of the reverse stands; NotFailedOver, FlowHeld if a
    mirror owns the flow, NoClusterAnswers, BrokerUnreachable, KafkaRefusal.
    """
    await refuse_forgetting(config, flow)
    async with held(config, flow, holder_of(config, mirror, "forget-failover"), known_dead(mirror)) as service:
        wanted = desired_of(service.load())
        if wanted.state != "stopped" or wanted.stop != "failover":
            raise NotFailedOver(str(flow.name))
        await service.put({DESIRED: wanted.in_state("stopped", stop="mirror")})
