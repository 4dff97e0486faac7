"""Record sets of several batches, as one fetch brings them."""

from hypothesis import strategies as st

from engine.wire.records import Record
from tests.unit.engine.wire.batches import DELETE_HORIZON, LOG_APPEND, TRANSACTIONAL, batch
from tests.unit.engine.wire.test_records import CONTENT, as_records


def small(count: int, *, first: int = 0, codec: int = 0, each: int = 1) -> list[bytearray]:
    """Return `count` batches of `each` records, with consecutive offsets from `first` on."""
    made = []
    for index in range(count):
        base = first + index * each
        content = [
            Record(base + step, 1_700_000_000_000 + base + step, b"key-%d" % (base + step), b"v" * 50)
            for step in range(each)
        ]
        made.append(batch(content, codec))
    return made


@st.composite
def sources(
    draw: st.DrawFn,
    *,
    codecs: st.SearchStrategy[int],
    bits: st.SearchStrategy[int] = st.sampled_from([0, 0, 0, TRANSACTIONAL, DELETE_HORIZON, LOG_APPEND]),  # noqa: B008
    holes: bool = True,
) -> list[tuple[bytearray, list[Record]]]:
    """Some batches in the order of their offsets, and the records of each; with holes in and between them."""
    offset = draw(st.integers(0, 2**40))
    made = []
    for _ in range(draw(st.integers(1, 6))):
        content = draw(CONTENT)
        offsets = []
        for _ in content:
            offsets.append(offset)
            offset += draw(st.just(1) | st.integers(1, 40)) if holes else 1
        records = as_records(content, offsets)
        chosen = draw(bits)
        newest = max(record.timestamp for record in records)
        built = batch(records, draw(codecs), bits=chosen, max_timestamp=newest)
        if chosen & LOG_APPEND:
            records = [Record(one.offset, newest, one.key, one.value, one.headers) for one in records]
        made.append((built, records))
        offset += draw(st.just(0) | st.integers(0, 5)) if holes else 0
    return made


def joined(batches: list[bytearray]) -> bytearray:
    """Return the batches as one record set."""
    return bytearray(b"".join(batches))
