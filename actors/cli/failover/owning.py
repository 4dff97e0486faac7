"""The identity with which a command owns a flow for a while."""

import os
import socket
import uuid
from collections.abc import Callable

from actors.local import session
from actors.ray.launch import code_version
from engine.config.settings import MirrorConfig
from engine.state.state import Deployment, StateHolder


def holder_of(config: MirrorConfig, mirror: str, command: str) -> StateHolder:
    """Return the identity with which a command takes a flow; `mirror`: the namespace of a mirror of this configuration.

    It differs from the mirror's identity: a mirror that is cut off may copy until its lease ends.
    """
    deployment = config.deployment_id or session.deployment_id(os.environ)
    return StateHolder(
        deployment_id=f"{deployment} ({command})",
        instance_id=uuid.uuid4().hex,
        mirror=f"{mirror} ({command})",
        version=code_version(),
        where=socket.gethostname(),
    )


def known_dead(mirror: str) -> Callable[[Deployment], bool]:
    """Return a check for an owner whose `run` process has died on this machine, so no wait for it is needed."""
    dead = session.dead_instance(mirror, os.environ)
    return lambda owner: bool(dead) and owner.instance_id == dead
