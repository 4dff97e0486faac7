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


def limiting(quotas: Sequence[ClientQuota], limit: str, user: str, client_id: str = "") -> ClientQuota | None:
    """Return the quota that limits a user's clients; None if none does; an empty `user` means unknown.

    The most specific entity counts, as in Kafka's ClientQuotaManager: user and client, then user, then client; a named
    user before the default user, a named client before any. `client_id`: the id that all of the clients have; empty:
    each has its own.
    """
    by_entity = {frozenset(one.entity.items()): one for one in quotas if limit in one.limits}
    names: list[str | None] = [user, None] if user else [None]
    clients = [{CLIENT: client_id}, _ANY_CLIENT] if client_id else [_ANY_CLIENT]
    entities = [{USER: name, **of_client} for name in names for of_client in (*clients, {})]
    found = (by_entity.get(frozenset(entity.items())) for entity in (*entities, *clients))
    return next(filter(None, found), None)
