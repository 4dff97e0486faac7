"""Decides which batches are merged before they are sent (REBATCH), how many of them, and when a batch waits for more.

Batches that wait together are merged anyway. So the size of target batches follows the load: while nothing is in
flight, a batch leaves at once; while many appends are in flight, batches gather until one of them is answered.

A broker takes up one request of a connection after the other, and a request has one batch of a partition. So a target
that waits for its replicas gives a partition one batch for each such wait, whatever the batch's size: while appends
queue there, larger batches are merged too.
"""

import msgspec

_KIB = 1024
_NONE = 0
_GZIP, _LZ4, _ZSTD = 1, 3, 4
_SLOW_BYTES = 512
"""Batches of slow codecs (gzip, zstd) are merged up to this size: larger ones cost more to open than to send."""
_INFLATED_BYTES = {_GZIP: 32 * _KIB, _ZSTD: 128 * _KIB}
_OTHER_INFLATED_BYTES = 256 * _KIB
_SLOW_REQUEST_S = 0.001
"""A target that needs this many seconds for a request waits for more than its own log and network."""
_FULL_REQUEST_BYTES = 512 * _KIB
"""Requests of this size are not made larger."""


def is_slow(request_bytes: float, rate: float) -> bool:
    """Whether a target whose requests queue would take more in larger ones.

    `request_bytes`: the usual size of a request; `rate`: bytes per second that the target takes.
    """
    return rate > 0 and request_bytes < _FULL_REQUEST_BYTES and request_bytes >= _SLOW_REQUEST_S * rate


class SmallBatches(msgspec.Struct, frozen=True):
    """The largest batches that may be merged with others, in bytes of the whole batch; -1 for none."""

    plain_bytes: int
    compressed_bytes: int

    def contains(self, size_bytes: int, codec: int) -> bool:
        """Whether a batch of this size is small. `codec`: its codec's id, 0 if it is plain."""
        return size_bytes <= (self.plain_bytes if codec == _NONE else self.compressed_bytes)


NO_BATCHES = SmallBatches(-1, -1)


class RebatchHints(msgspec.Struct, frozen=True, kw_only=True):
    """The user's wishes, in the words of Kafka's producer: `linger.ms` and `batch.size`; None: none."""

    linger_ms: int | None = None
    batch_bytes: int | None = None


NO_HINTS = RebatchHints()
_CROWDS = ((100, 1), (10, 2), (1, 4))
"""From so many milliseconds of linger.ms on, a small batch waits for an answer from so many appends in flight on."""
_NEVER = 1 << 30


class RebatchRules(msgspec.Struct, frozen=True, kw_only=True):
    """How a lane merges. One merge takes about a millisecond at most, because other lanes wait for it.

    `plain_records`, `compressed_batches`: most records of plain batches, and most batches otherwise, in one merge; 0:
    no limit. `inflated_share`: the divisor for the bytes that compressed batches of one merge decompress to.
    """

    small: SmallBatches
    plain_records: int
    compressed_batches: int
    inflated_share: int = 1
    crowd: int = 8
    """Appends in flight from which on a small batch waits for an answer: at most about an eighth of a round trip."""
    most_merged_bytes: int = 1024 * _KIB
    """The most bytes of records in one merge, however much the target accepts."""
    full_bytes: int = 16 * _KIB
    """Bytes of waiting batches that no longer wait for an answer."""
    bulk_codecs: tuple[int, ...] = ()
    """Codecs whose batches are opened many at a time: `compressed_batches` is no limit for them."""
    fast_inflated_bytes: int = _OTHER_INFLATED_BYTES
    """The most bytes that batches of one merge decompress to, unless their codec is slow."""
    queued: "RebatchRules | None" = None
    """The rules while appends queue at a target that is slow (`is_slow`); None: the same."""

    def used(self, *, queues: bool) -> "RebatchRules":
        """Return the rules for the next batch. `queues`: whether appends queue at a slow target."""
        return self.queued if queues and self.queued is not None else self

    def adapted(self, hints: RebatchHints) -> "RebatchRules":
        """Return these rules with the user's wishes, as far as no batch waits for a time to pass.

        `linger.ms`: the longer, the fewer appends in flight make a small batch wait for an answer; 0: it never waits.
        `batch.size`: waiting batches of this size together wait no longer.
        """
        crowd, full_bytes = self.crowd, self.full_bytes
        if hints.linger_ms is not None:
            crowd = next((crowd for least_ms, crowd in _CROWDS if hints.linger_ms >= least_ms), _NEVER)
        if hints.batch_bytes is not None:
            full_bytes = min(hints.batch_bytes, self.most_merged_bytes)
        return msgspec.structs.replace(self, crowd=crowd, full_bytes=full_bytes)

    def most_bytes(self, limit_bytes: int, *, codec: int, content_bytes: int, records: int, batches: int) -> int:
        """Return the most bytes of records in one merge of batches with this content, and so many records and batches.

        `content_bytes`: of the batches without their headers. `limit_bytes`: the most that the target accepts. `codec`:
        that of the merged batch.
        """
        limit_bytes = min(limit_bytes, self.most_merged_bytes)
        most, count = (self.plain_records, records) if codec == _NONE else (self.compressed_batches, batches)
        if codec == _ZSTD:
            most = most * 2 // 3  # its library makes a context for each batch: 16 us instead of 6
        elif codec in self.bulk_codecs:
            most = 0
        return min(limit_bytes, most * content_bytes // max(1, count)) if most else limit_bytes

    def inflated_bytes(self, limit_bytes: int, codec: int) -> int:
        """Return the most bytes that batches of one merge may decompress to; slow codecs get less.

        A target that stores batches without compression checks the size of that, in which records take a few bytes more
        than in their small batches: so a quarter of its limit is left.
        """
        most_bytes = _INFLATED_BYTES.get(codec, self.fast_inflated_bytes)
        return min(limit_bytes * 3 // 4, most_bytes // self.inflated_share)

    def pays(self, codec: int, content_bytes: int, batches: int) -> bool:
        """Whether merging so many batches with this content costs less than sending them one by one."""
        return codec not in _INFLATED_BYTES or content_bytes <= _SLOW_BYTES * batches

    def waits(self, in_flight: int, waiting_bytes: int) -> bool:
        """Whether a small batch waits for the next answer of `in_flight` appends, so that others join it."""
        return in_flight >= self.crowd and waiting_bytes < self.full_bytes


QUEUED = RebatchRules(
    small=SmallBatches(256 * _KIB, 128 * _KIB),
    plain_records=0,
    compressed_batches=0,
    fast_inflated_bytes=512 * _KIB,
)
"""With the native module, at a slow target: a MiB of plain batches takes 0.1 ms, half a MiB of lz4 about 1 ms."""
COMPILED = RebatchRules(
    small=SmallBatches(16 * _KIB, 4 * _KIB),
    plain_records=0,
    compressed_batches=120,
    bulk_codecs=(_LZ4,),
    queued=QUEUED,
)
"""With the native module, which merges plain batches at about 15 million records per second."""
PURE = RebatchRules(small=SmallBatches(_KIB, _KIB // 2), plain_records=120, compressed_batches=80, inflated_share=4)
"""Without it. A record costs 9 us then, so only batches of few records are cheaper together than one by one."""
