"""Reads the settings of the clients of a flow, one `ClientTuning` for each cluster and kind of client."""

from collections.abc import Callable

import msgspec

from engine.base.clock import Backoff
from engine.config.clients.read_login import read_login
from engine.config.flow_keys import FlowKeys
from engine.config.property_reader import PropertyReader
from engine.config.tuning.client_tuning import RECONNECT, ClientTuning

_MOST_INT = 2**31 - 1
_MOST_LONG = 2**63 - 1
_CANONICAL = "resolve_canonical_bootstrap_servers_only"
_LOOKUPS = ("use_all_dns_ips", _CANONICAL, "default")
"""The last word was Kafka's default before 2.6, and means the first one here."""
_OURS = ClientTuning()

KeyOf = Callable[[str], str]
"""Finds the key that holds for a client setting (a method of FlowKeys)."""


def read_source_client(reader: PropertyReader, keys: FlowKeys) -> ClientTuning:
    """Return how copiers read the source. Raises ConfigError."""
    tuning = _asking(reader, keys.consumer, _connecting(reader, keys.consumer))
    return msgspec.structs.replace(tuning, login=read_login(reader, keys, "consumer"))


def read_target_client(reader: PropertyReader, keys: FlowKeys) -> ClientTuning:
    """Return how the target is written. Raises ConfigError."""
    tuning = _asking(reader, keys.producer, _connecting(reader, keys.producer, is_whole_id=True))
    return msgspec.structs.replace(tuning, login=read_login(reader, keys, "producer"))


def read_source_admin(reader: PropertyReader, keys: FlowKeys) -> ClientTuning:
    """Return how all but copiers ask the source. Raises ConfigError."""
    tuning = _administrating(reader, keys.source_admin)
    return msgspec.structs.replace(tuning, login=read_login(reader, keys, "source admin"))


def read_target_admin(reader: PropertyReader, keys: FlowKeys) -> ClientTuning:
    """Return how all but copiers ask the target. Raises ConfigError."""
    tuning = _administrating(reader, keys.target_admin)
    return msgspec.structs.replace(tuning, login=read_login(reader, keys, "target admin"))


def read_syncs_client(
    reader: PropertyReader, keys: FlowKeys, copying: ClientTuning, *, on_source: bool
) -> ClientTuning | None:
    """Return how offset syncs are written; None if as by `copying`, the copier's client of their cluster."""
    login = read_login(reader, keys, "source syncs" if on_source else "target syncs")
    return None if login == copying.login else msgspec.structs.replace(copying, login=login)


def _administrating(reader: PropertyReader, key_of: KeyOf) -> ClientTuning:
    tuning = _connecting(reader, key_of)
    api_s = _ms(reader, key_of("default.api.timeout.ms"), _OURS.api_s, 1)
    return msgspec.structs.replace(tuning, api_s=api_s)


def _asking(reader: PropertyReader, key_of: KeyOf, tuning: ClientTuning) -> ClientTuning:
    """Add the settings of clients that ask the leaders of partitions."""
    return msgspec.structs.replace(
        tuning,
        retry=_backoff(reader, key_of("retry.backoff.ms"), key_of("retry.backoff.max.ms"), _OURS.retry),
        leaders_s=_ms(reader, key_of("metadata.max.age.ms"), _OURS.leaders_s, 100),
    )


def _connecting(reader: PropertyReader, key_of: KeyOf, *, is_whole_id: bool = False) -> ClientTuning:
    first, most = key_of("reconnect.backoff.ms"), key_of("reconnect.backoff.max.ms")
    pauses = _backoff(reader, first, most, RECONNECT)
    idle_ms = reader.number(key_of("connections.max.idle.ms"), -1, -1, _MOST_LONG)
    return ClientTuning(
        client_id=reader.text(key_of("client.id"), ""),
        is_whole_id=is_whole_id,
        canonical_names=reader.choice(key_of("client.dns.lookup"), _LOOKUPS) == _CANONICAL,
        setup_s=_ms(reader, key_of("socket.connection.setup.timeout.ms"), _OURS.setup_s, 1),
        most_setup_s=_ms(reader, key_of("socket.connection.setup.timeout.max.ms"), _OURS.most_setup_s, 1),
        reconnect=pauses if reader.has(first) or reader.has(most) else None,
        idle_s=max(0, idle_ms) / 1000,
        send_bytes=reader.number(key_of("send.buffer.bytes"), _OURS.send_bytes, -1, _MOST_INT),
        receive_bytes=reader.number(key_of("receive.buffer.bytes"), _OURS.receive_bytes, -1, _MOST_INT),
        answer_s=_ms(reader, key_of("request.timeout.ms"), _OURS.answer_s, 100),
    )


def _backoff(reader: PropertyReader, first: str, most: str, otherwise: Backoff) -> Backoff:
    """Return pauses. As in Kafka, the first is not longer than the longest, unless only the first is set."""
    first_s, most_s = _ms(reader, first, otherwise.first_s, 1), _ms(reader, most, otherwise.most_s, 1)
    if reader.has(first) and not reader.has(most):
        return Backoff(first_s, max(first_s, most_s))
    return Backoff(min(first_s, most_s), most_s)


def _ms(reader: PropertyReader, key: str, default_s: float, least: int) -> float:
    return reader.number(key, int(default_s * 1000), least, _MOST_INT) / 1000
