"""Reads what a file says about the batches of MM2's producer: their compression, their size, how long they wait."""

from engine.config.flow_keys import FlowKeys
from engine.config.property_reader import PropertyReader
from engine.wire.codecs import NAMES, NONE
from policies.rebatch import RebatchHints

_MOST_INT = 2**31 - 1


def read_codec(reader: PropertyReader, keys: FlowKeys) -> int | None:
    """Return the codec that every batch gets; None if batches keep the codec of the source. Raises ConfigError."""
    key = keys.producer("compression.type")
    codec = NAMES.index(reader.choice(key, NAMES))
    if codec == NONE:
        return None
    reader.note(
        key,
        f"{NAMES[codec]}: every batch with another compression is opened and compressed again, as by MM2, which takes"
        " far more CPU than to pass it; without the key batches keep the compression that their producers chose",
    )
    return codec


def read_hints(reader: PropertyReader, keys: FlowKeys) -> RebatchHints:
    """Return the wishes for merging small batches. Raises ConfigError."""
    linger, size = keys.producer("linger.ms"), keys.producer("batch.size")
    linger_ms, batch_bytes = reader.number(linger, 0, 0, _MOST_INT), reader.number(size, 0, 0, _MOST_INT)
    return RebatchHints(
        linger_ms=linger_ms if reader.has(linger) else None, batch_bytes=batch_bytes if reader.has(size) else None
    )
