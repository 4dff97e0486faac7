"""A corpus of files as people have them: raymirror's effective values are MM2's, key by key, or differ as meant.

`tests/contract/corpus` has the files, and what MM2 4.3.1's own classes make of them (tests/harness/mm2_values.py).
"""

import re
from collections.abc import Iterator, Mapping

import pytest

from engine.base.errors import ConfigError
from engine.config.config import load_config
from tests.harness.mm2_values import CORPUS, NO_CHECKPOINTS, REFUSES, ROLES, Values, files, names_of, recorded
from tests.harness.our_values import NOT_COMPARED, our_values

RECORD = recorded()
_BUFFER = "the operating system sizes the buffers of sockets, which a fixed size bounds over a distance"
_IDLE = "a connection that is needed stays, and an idle one costs nothing"
_REPLICAS = "three, or one for each broker of a smaller cluster"
_OFTEN = "raymirror looks more often: it lists what has changed, and not all"
_LEADERS = "leaders are looked up more often, which costs one request"
_HINT = "batches of the source are passed on whole; the key is a hint for merging small ones"
_OFF = "MirrorCheckpointConnector can't run with emit.checkpoints.enabled set to false"
_WITHOUT_SYNCS = f"{_OFF}; MirrorCheckpointConnector can't run without offset syncs"
_EXCLUDED = (
    r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
    r"message\.timestamp\.difference\.max\.ms, {}message\.timestamp\.type, unclean\.leader\.election\.enable, "
    r"min\.insync\.replicas"
)
MEANT: Mapping[tuple[str, str, str], str] = {
    ("config.properties.exclude", _EXCLUDED.format("log.message.timestamp.before.max.ms, "
     "log.message.timestamp.after.max.ms, ").replace("\\", ""), _EXCLUDED.format("")):
        "dots are dots, and the two more names are those of broker settings, which no topic has",
    ("checkpoints.topic.replication.factor", "3", "0"): _REPLICAS,
    ("heartbeats.topic.replication.factor", "3", "0"): _REPLICAS,
    ("offset-syncs.topic.replication.factor", "3", "0"): _REPLICAS,
    ("emit.checkpoints.interval.seconds", "60", "5"): _OFTEN,
    ("sync.group.offsets.interval.seconds", "60", "5"): _OFTEN,
    ("refresh.groups.interval.seconds", "600", "5"): _OFTEN,
    ("refresh.topics.interval.seconds", "600", "5"): _OFTEN,
    ("exactly.once.source.support", "preparing", "disabled"): "there is nothing to prepare",
    (NO_CHECKPOINTS, _OFF, ""): "checkpoints are off, which is no error",
    (NO_CHECKPOINTS, _WITHOUT_SYNCS, ""): "the same",
    ("consumer.isolation.level", "read_uncommitted", "read_committed"): "records of aborted transactions are no data",
    ("consumer.fetch.max.bytes", "52428800", "4194304"): "an answer fits into one receive buffer",
    ("consumer.max.partition.fetch.bytes", "1048576", "524288"): "a part of one receive buffer",
    ("consumer.metadata.max.age.ms", "300000", "30000"): _LEADERS,
    ("producer.metadata.max.age.ms", "300000", "30000"): _LEADERS,
    ("producer.acks", "-1", "all"): "two words for one thing",
    ("producer.acks", "1", "all"): "every append waits for all in-sync replicas; a warning says so",
    ("producer.batch.size", "16384", "None"): _HINT,
    ("producer.linger.ms", "5", "None"): _HINT,
    ("producer.max.in.flight.requests.per.connection", "1", "1024"): "sequences keep the order of many",
    ("source.admin.reconnect.backoff.max.ms", "60", "1000"): "pauses grow up to a second",
    **{(f"{role}.connections.max.idle.ms", "300000" if "admin" in role else "540000", "0"): _IDLE for role in ROLES},
    **{(f"{role}.receive.buffer.bytes", "32768" if role == "producer" else "65536", "-1"): _BUFFER for role in ROLES},
    **{(f"{role}.send.buffer.bytes", "131072", "-1"): _BUFFER for role in ROLES},
    **{(f"{side}.admin.default.api.timeout.ms", "60000", "30000"): "it asks again" for side in ("source", "target")},
}  # fmt: skip
"""(key, MM2's value, raymirror's) -> why they differ. Whatever is not here is equal."""

ONLY_WE_REFUSE = {
    "amq-streams": (
        "cluster 'cluster-1B->C' is not in clusters",
        "MM2 passes over the line, and the topics of a flow with it",
    ),
    "oci-streaming": ("has a quote that is not closed", "MM2 starts, and its client fails to log in"),
    "trap-blacklist-of-ones-own": ("did you mean A->B.topics.exclude?", "MM2 copies the topics that the user excludes"),
    "trap-cluster-not-listed": ("cluster 'C' is not in clusters", "MM2 does not copy the flow"),
    "trap-comma-in-a-pattern": ("a list is split at every comma", "MM2 starts, and its filter fails"),
    "trap-identity-both-ways": ("in a loop", "MM2 copies in a circle"),
    "trap-keys-ended-by-colon": ("did you mean A->B.topics?", "MM2 copies all topics"),
    "trap-mistyped": ("did you mean A->B.topics.exclude?", "MM2 copies the topics that the user excludes"),
    "trap-period-of-zero": ("0 is out of range", "MM2's connector fails when it starts"),
    "trap-replication-factor-zero": ("0 is out of range", "MM2 starts, and no broker creates a topic so"),
    "trap-tolerant-of-errors": ("skips no record", "MM2 loses the records that the target refuses"),
    "trap-top-level-filter": ("selects nothing", "MM2 passes over the line"),
    "trap-transforms": ("runs no transformations", "raymirror would copy what MM2 changes"),
}
"""File -> a part of the refusal, and why not to start is better."""

ONLY_MM2_REFUSES = {
    "msk-iam": "MM2 needs Amazon's jar; the login is raymirror's own",
    "msk-own-policy": "MM2 needs the jar of Amazon's sample; raymirror knows the policy",
    "strimzi-identity": "MM2 needs Strimzi's jar; raymirror knows the policy",
    "oauth-in-the-login-module": "the class is not in that package any more; raymirror takes it from any",
    "trap-short-policy-name": "a class without its package; a warning says so",
}
BOTH_REFUSE = {
    "trap-docs-name-enable": "no flow is enabled",
    "trap-a-word-for-a-number": "'many' is not a number",
    "trap-a-word-for-a-switch": "'yes' is neither true nor false",
    "trap-own-filter-class": "unknown filter",
    "trap-protocol-unknown": "not a security protocol",
    "trap-syncs-nowhere": "'somewhere' is unknown",
    "trap-syncs-off-but-set": "emit.offset-syncs.enabled is false",
}
"""File -> a part of raymirror's refusal. MM2 starts without a flow, or does not start."""
READ = sorted({*RECORD} - {*ONLY_WE_REFUSE, *ONLY_MM2_REFUSES, *BOTH_REFUSE})


def ours_of(name: str) -> dict[str, Values]:
    config = load_config(CORPUS / f"{name}.properties")
    return {str(flow.name): our_values(config, flow) for flow in config.flows}


def differences(name: str) -> Iterator[tuple[str, str, str]]:
    """Yield (key, MM2's value, raymirror's) of all flows, where they differ."""
    for flow, ours in ours_of(name).items():
        theirs = RECORD[name][flow]
        for key in sorted(ours.keys() | theirs.keys()):
            if ours["emit.heartbeats.enabled"] == "false" and "heartbeats" in key and key not in ours:
                continue  # there are none: their interval means nothing
            both = theirs.get(key, ""), ours.get(key, "")
            if plain(key, both[0]) != plain(key, both[1]):
                yield key, *both


def plain(key: str, value: str) -> str:
    return re.sub(r"\s*,\s*", ",", value.strip()) if key.endswith("bootstrap.servers") else value


def test_the_corpus_is_large_and_whole() -> None:
    assert len(files()) >= 80
    assert {path.stem for path in files()} == RECORD.keys(), "python -m tests.harness.mm2_values"


@pytest.mark.parametrize("name", READ)
def test_the_values_are_mm2s_or_meant(name: str) -> None:
    assert not any(REFUSES in values for values in RECORD[name].values())
    assert ours_of(name).keys() == RECORD[name].keys(), "the flows that are copied"
    assert [found for found in differences(name) if found not in MEANT] == []


def test_every_difference_that_is_meant_is_there() -> None:
    found = {one for name in READ for one in differences(name)}
    assert {one for one in MEANT if one not in found} == set()


@pytest.mark.parametrize("name", [*ONLY_WE_REFUSE, *BOTH_REFUSE])
def test_what_raymirror_refuses(name: str) -> None:
    part = ONLY_WE_REFUSE[name][0] if name in ONLY_WE_REFUSE else BOTH_REFUSE[name]
    with pytest.raises(ConfigError) as caught:
        load_config(CORPUS / f"{name}.properties")
    assert part in str(caught.value)
    refused = not RECORD[name] or any(REFUSES in values for values in RECORD[name].values())
    assert refused == (name in BOTH_REFUSE)


@pytest.mark.parametrize("name", ONLY_MM2_REFUSES)
def test_what_only_mm2_refuses(name: str) -> None:
    assert all(REFUSES in values for values in RECORD[name].values())
    assert ours_of(name).keys() == RECORD[name].keys()


def test_no_key_that_is_read_is_left_out() -> None:
    """Each of Kafka's keys that a flow reads has a value on both sides."""
    levels = ("flow", "filter", "storage", "worker")
    wanted = {*names_of(*levels), *(f"consumer.{one}" for one in names_of("consumer"))}
    wanted |= {f"producer.{one}" for one in names_of("producer")}
    wanted |= {f"{side}.admin.{one}" for side in ("source", "target") for one in names_of("admin")}
    (ours,) = ours_of("docs-one-way").values()
    (theirs,) = RECORD["docs-one-way"].values()
    assert wanted - ours.keys() == NOT_COMPARED.keys()
    assert wanted - theirs.keys() == NOT_COMPARED.keys()
