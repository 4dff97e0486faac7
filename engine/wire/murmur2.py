"""Kafka's default partitioner: computes the partition of a key (`Utils.murmur2`, `BuiltInPartitioner`)."""

_SEED = 0x9747B28C
_M = 0x5BD1E995
_R = 24
_MASK = 0xFFFF_FFFF


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash, unsigned."""
    length = len(data)
    h = _SEED ^ length
    for at in range(0, length & ~3, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> _R) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    tail = data[length & ~3 :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition to which Kafka's producer sends `key`, in a topic of `partitions` partitions."""
    return (murmur2(key) & 0x7FFF_FFFF) % partitions
