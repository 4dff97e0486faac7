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
    ReadKey("fetch.max.bytes", "consumer", "4 MiB", "as in Kafka", "at most 4 MiB"),
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
    ReadKey("acks", "producer", "all", "", "always all; any other value is a warning"),
    ReadKey(
        "request.timeout.ms",
        "consumer, producer, admin",
        "30000",
        "after this time without an answer a request counts as lost, and its connection with it",
    ),
    ReadKey(
        "default.api.timeout.ms",
        "admin",
        "30000",
        "what a cluster may take to create, grow or delete a topic",
        "MM2: 60000, for any call",
    ),
    ReadKey(
        "retry.backoff.ms",
        "consumer, producer",
        "100",
        "the first pause before a partition is asked again that was refused for now, or that has no leader; it doubles",
    ),
    ReadKey("retry.backoff.max.ms", "consumer, producer", "1000", "the longest of these pauses"),
    ReadKey(
        "reconnect.backoff.ms",
        "consumer, producer, admin",
        "50, for what copies",
        "the first pause between two attempts to connect to one broker; it doubles",
        "unset: a connection that does not copy is tried once a second, or after as long as a silent attempt took",
    ),
    ReadKey(
        "reconnect.backoff.max.ms",
        "consumer, producer, admin",
        "1000, for what copies",
        "the longest of these pauses",
        "unset: 30 s for a broker that does not answer",
    ),
    ReadKey(
        "socket.connection.setup.timeout.ms",
        "consumer, producer, admin",
        "10000",
        "the time for a connect; it doubles after each failure",
        "also for each step of a login, and for TLS",
    ),
    ReadKey(
        "socket.connection.setup.timeout.max.ms",
        "consumer, producer, admin",
        "30000",
        "the longest time for a connect",
    ),
    ReadKey(
        "connections.max.idle.ms",
        "consumer, producer, admin",
        "no limit",
        (
            "a connection that was idle for longer is opened again before it is used: for a firewall or load balancer"
            " that drops idle connections without a word"
        ),
        "MM2: 540000. A broker closes idle connections too, by default after 10 minutes, and raymirror connects again",
    ),
    ReadKey(
        "metadata.max.age.ms",
        "consumer, producer",
        "30000",
        "how often all leaders are looked up, changed or not",
        "MM2: 300000. New topics and partitions: `refresh.topics.interval.seconds`",
    ),
    ReadKey(
        "send.buffer.bytes",
        "consumer, producer, admin",
        "-1",
        "the socket's send buffer; -1: the operating system's, which grows",
        "MM2: 131072",
    ),
    ReadKey(
        "receive.buffer.bytes",
        "consumer, producer, admin",
        "-1",
        "the socket's receive buffer; -1: the operating system's, which grows",
        "MM2: 65536, producers 32768",
    ),
    ReadKey(
        "client.dns.lookup",
        "consumer, producer, admin",
        "use_all_dns_ips",
        (
            "`resolve_canonical_bootstrap_servers_only`: each bootstrap address is replaced by the canonical names of"
            " all its addresses"
        ),
    ),
    ReadKey(
        "client.id",
        "consumer, producer, admin",
        "`raymirror|A->B|...`",
        (
            "consumers and admin clients: stands before the default, with a bar between them, as in MM2; producer: the"
            " whole client id of all connections that write the data, as in MM2, so that a quota can name it"
        ),
    ),
    ReadKey(
        "max.request.size",
        "producer",
        "1048576",
        "a Produce request gets no more batches when it has this many bytes",
        "no limit for a batch: the target's `max.message.bytes` decides",
    ),
    ReadKey(
        "compression.type",
        "producer",
        "none",
        (
            "gzip, snappy, lz4 or zstd: every batch with another compression is opened and compressed again, which"
            " takes far more CPU than to pass it"
        ),
        "none: batches keep the compression that they have on the source; in MM2 they lose it",
    ),
    ReadKey(
        "linger.ms",
        "producer",
        "none",
        (
            "a hint how patient small batches are: 0: they leave at once; the larger, the sooner they wait for the"
            " answer to an append that is in flight, so that more of them are merged"
            " ([`raymirror.rebatch`](#copying))"
        ),
        "no batch waits for a time to pass; MM2: 5",
    ),
    ReadKey(
        "batch.size",
        "producer",
        "16 KiB",
        "a hint: small batches that wait together wait no longer when they have this many bytes",
        "no limit for a batch",
    ),
)
