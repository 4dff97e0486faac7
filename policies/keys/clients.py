"""The keys of MM2's clients: how the source is read and the target is written."""

from policies.keys.read_key import ReadKey

TITLE = "Clients"
ROWS = (
    ReadKey(
        "isolation.level",
        "consumer",
        "read_committed",
        "read_uncommitted also copies open and aborted transactions",
        "MM2: read_uncommitted",
    ),
    ReadKey(
        "auto.offset.reset",
        "consumer",
        "earliest",
        "where a lane without a position starts; `by_duration:PT6H` works, too",
        "an offset that is out of range later is a gap event, not a silent jump",
    ),
    ReadKey("client.rack", "consumer", "none", "read from the nearest replica"),
    ReadKey("fetch.min.bytes", "consumer", "1", "as in Kafka"),
    ReadKey("fetch.max.wait.ms", "consumer", "500", "as in Kafka"),
    ReadKey("fetch.max.bytes", "consumer", "one receive buffer", "as in Kafka", "at most one receive buffer"),
    ReadKey(
        "max.partition.fetch.bytes",
        "consumer",
        "part of a buffer",
        (
            "as in Kafka, but at most 1/64 of `raymirror.copier.memory.bytes`; also the most bytes of one range"
            " (`raymirror.source.connections`)"
        ),
        "MM2: 1 MiB",
    ),
    ReadKey(
        "max.in.flight.requests.per.connection",
        "producer",
        "1024",
        "the most batches of one lane in flight; how many there are depends on the distance and on the rate",
        "MM2: 1. The order is kept with any number",
    ),
    ReadKey("request.timeout.ms", "producer", "30000", "after this time without an answer a request counts as lost"),
    ReadKey("acks", "producer", "all", "", "always all; any other value is a warning"),
)
