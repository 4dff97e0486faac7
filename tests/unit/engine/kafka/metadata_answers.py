"""Answers to Metadata as hypothesis makes them: the rows of aiokafka's classes."""

from hypothesis import strategies as st

NODES = st.lists(st.integers(0, 2**31 - 1), max_size=9)
TAGS = st.dictionaries(st.integers(1, 300), st.binary(max_size=3).map(lambda tag: bytes([len(tag)]) + tag), max_size=2)
"""With their sizes, which aiokafka leaves out."""
PARTITIONS = st.tuples(
    st.integers(0, 100), st.integers(0, 9), st.integers(-1, 9), st.integers(-1, 9), NODES, NODES, NODES, TAGS
)
NAMES = st.sampled_from(["t", "ü", "x" * 200])
TOPICS = st.tuples(
    st.integers(0, 100), NAMES, st.uuids(), st.booleans(), st.lists(PARTITIONS, max_size=5), st.just(0), TAGS
)
BROKERS = st.tuples(st.integers(0, 9), st.just("host"), st.just(9092), st.sampled_from([None, "", "rack"]), TAGS)
