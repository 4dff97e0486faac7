"""Finds the quota of a Kafka cluster that limits a client (KIP-13, KIP-55, KIP-546, KIP-599)."""

from collections.abc import Mapping, Sequence

import msgspec

PRODUCE_BYTES, FETCH_BYTES = "producer_byte_rate", "consumer_byte_rate"
REQUEST_PERCENT, PARTITIONS_PER_S = "request_percentage", "controller_mutation_rate"
USER, CLIENT = "user", "client-id"
_ANY_CLIENT: dict[str, str | None] = {CLIENT: None}


class ClientQuota(msgspec.Struct, frozen=True):
    """The limits of one entity: its parts by type (None: the default of the type), and the limits by name."""

    entity: Mapping[str, str | None]
    limits: Mapping[str, float]

    @property
    def name(self) -> str:
        """The entity in the words of kafka-configs."""
        return ", ".join(
            f"the default {kind}" if name is None else f"{kind} {name!r}" for kind, name in sorted(self.entity.items())
        )


def limiting(quotas: Sequence[ClientQuota], limit: str, user: str) -> ClientQuota | None:
    """Return the quota that limits a user's clients; None if none does; an empty `user` means unknown.

    The most specific entity counts, as in Kafka's ClientQuotaManager: user and client, then user, then client; a named
    user before the default user. Quotas of single client ids are ignored, because each copier has its own id.
    """
    by_entity = {frozenset(one.entity.items()): one for one in quotas if limit in one.limits}
    names: list[str | None] = [user, None] if user else [None]
    entities = [{USER: name, **of_client} for name in names for of_client in (_ANY_CLIENT, {})]
    found = (by_entity.get(frozenset(entity.items())) for entity in (*entities, _ANY_CLIENT))
    return next(filter(None, found), None)
