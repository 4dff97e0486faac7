"""Result of one round of discovery."""

import msgspec

from engine.core.events.events import AnyEvent
from policies.model import LaneName


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """All lanes that can be copied now, what happened to topics, and the highest assignment epoch ever written."""

    lanes: tuple[LaneName, ...]
    events: tuple[AnyEvent, ...]
    highest_epoch: int
    target_id: str = ""
    """The id of the target cluster; empty if its brokers name none."""
