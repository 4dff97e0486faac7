"""Any text is converted or refused with one error: whatever a file has, no input crashes the conversion."""

import json
import string
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from engine.base.errors import ConfigError
from engine.config.config import read_config
from engine.config.file.config_file import parse_file
from engine.convert.conversion import Conversion, convert
from engine.convert.model import InputFile, Options

CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())
OPTIONS = st.builds(
    Options,
    whitelist=st.none() | st.text(max_size=8),
    blacklist=st.none() | st.text(max_size=8),
    source_alias=st.none() | st.text(max_size=3),
    target_alias=st.none() | st.sampled_from(["target", "b.c", "x->y"]),
    source_bootstrap=st.none() | st.sampled_from(["s:1", "nonsense", "${env:X}"]),
    target_bootstrap=st.none() | st.sampled_from(["t:1", ""]),
)


def _tried(files: list[InputFile], options: Options) -> tuple[Conversion | None, str]:
    try:
        return convert(files, options), ""
    except ConfigError as refused:
        return None, str(refused)


def outcome(files: list[tuple[str, bytes]], options: Options) -> Conversion | None:
    """Convert, and check what every conversion promises; None for an input that is refused in one line."""
    found, refused = _tried([InputFile(name, data) for name, data in files], options)
    if found is None:
        assert refused
        assert "\n" not in refused
        return None
    loaded = parse_file(found.text.encode(), "m.yaml")
    if not any("${" in one.value for one in found.settings):
        assert read_config(loaded).flows
    assert all(one.why for one in found.dropped)
    return found


@given(st.binary(max_size=200), st.sampled_from(["f", "f.yaml", "f.json", "f.properties"]), OPTIONS)
@example(b'{"a": "\\ud800"}', "f", Options())
@example(b"%YAML 1." + b"9" * 5000 + b"\n--- a", "f.yaml", Options())
@example(b'a: "\\UFFFFFFFF"', "f.yaml", Options())
def test_any_bytes(data: bytes, name: str, options: Options) -> None:
    outcome([(name, data)], options)


@given(
    st.sampled_from(CORPUS),
    st.lists(st.tuples(st.integers(0), st.integers(0, 40), st.binary(max_size=12)), max_size=4),
    OPTIONS,
)
def test_a_file_of_the_corpus_with_bytes_changed(
    path: Path, edits: list[tuple[int, int, bytes]], options: Options
) -> None:
    data = path.read_bytes()
    for at, gone, new in edits:
        place = at % (len(data) + 1)
        data = data[:place] + new + data[place + gone :]
    outcome([(path.name, data)], options)


@given(st.lists(st.sampled_from(CORPUS), min_size=1, max_size=4), OPTIONS)
def test_files_that_do_not_belong_together(paths: list[Path], options: Options) -> None:
    outcome([(path.name, path.read_bytes()) for path in paths], options)


KEYS = st.sampled_from(
    """topics topics.exclude topics.blacklist groups enabled tasks.max replication.factor replication.policy.class
       replication.policy.separator transforms transforms.x.type source.cluster.alias target.cluster.alias
       source.cluster.bootstrap.servers target.cluster.bootstrap.servers source.cluster.security.protocol
       source.cluster.sasl.mechanism source.cluster.sasl.jaas.config source.cluster.ssl.truststore.type
       source.cluster.ssl.truststore.location source.cluster.ssl.keystore.location topic.filter.class
       group.filter.class raymirror.start raymirror.nonsense raymirror.unsupported clusters config.providers
       offset-syncs.topic.location emit.offset-syncs.enabled offset-syncs.topic.replication.factor
       source.consumer.auto.offset.reset source.consumer.group.id producer.override.acks
       topic.rename.format topic.regex topic.whitelist src.kafka.sasl.mechanism dest.kafka.bootstrap.servers
       src.consumer.group.id topics.regex consumer.override.x""".split()  # noqa: SIM905
) | st.text(string.ascii_letters + string.digits + ".-_>${}: #'\"\\", max_size=12)
VALUES = (
    st.sampled_from(["true", "false", "", "1", "0", "-1", "a", "b", "h:1", "SASL_SSL", "SSL", "PLAIN", "JKS", "PEM"])
    | st.sampled_from(["${env:HOME}", "${vault:a:b}", "x.y.Z", "(", "a{1,2}", "${topic}", "p-${topic}", "a,b", "->"])
    | st.text(max_size=6)
)
CLASSES = [
    "MirrorSourceConnector",
    "MirrorCheckpointConnector",
    "MirrorHeartbeatConnector",
    "MirrorSinkConnector",
    "x.ReplicatorSourceConnector",
]


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "connector.class": st.sampled_from(CLASSES),
                "source.cluster.alias": st.sampled_from("ab"),
                "target.cluster.alias": st.sampled_from("bc"),
                "source.cluster.bootstrap.servers": st.just("s:1"),
                "target.cluster.bootstrap.servers": st.just("t:1"),
                "src.kafka.bootstrap.servers": st.just("s:1"),
            }
        ).flatmap(lambda base: st.dictionaries(KEYS, VALUES, max_size=8).map(lambda more: {**base, **more})),
        min_size=1,
        max_size=3,
    )
)
def test_connectors_with_any_settings(configs: list[dict[str, str]]) -> None:
    outcome([("c.json", json.dumps(configs).encode())], Options())
    lines = [f"{key}={value}" for key, value in configs[0].items() if "\n" not in key + value]
    outcome([("c.properties", "\n".join(lines).encode("utf-8"))], Options())


@given(st.dictionaries(KEYS, VALUES, max_size=10), st.dictionaries(KEYS, VALUES, max_size=5))
def test_mm2_with_any_settings(top: dict[str, str], flow: dict[str, str]) -> None:
    entries = {"bootstrap.servers": "h:1", "a->b.enabled": "true", **top, "clusters": "a, b"}
    entries |= {f"a->b.{key}": value for key, value in flow.items()}
    text = "\n".join(f"{key} = {value}" for key, value in entries.items() if key and "\n" not in key + value)
    outcome([("mm2.properties", text.encode("utf-8"))], Options())


TREE = st.recursive(
    st.none() | st.booleans() | st.sampled_from(["a", "b", "h:1", "plain", "tls", "custom"]) | st.integers(-1, 3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("clusters", "mirrors", "target", "source", "alias", "bootstrapServers", "config", "tls", "type"),
                    *(
                        "authentication",
                        "sourceConnector",
                        "checkpointConnector",
                        "heartbeatConnector",
                        "sourceCluster",
                    ),
                    *("targetCluster", "topicsPattern", "trustedCertificates", "passwordSecret", "username", "state"),
                    *("secretName", "certificateAndKey", "consumer", "producer", "include", "class", "groupId"),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)
KINDS = st.sampled_from(["KafkaMirrorMaker2", "KafkaMirrorMaker", "KafkaConnector", "KafkaConnect", "Secret"])


@given(KINDS, TREE)
def test_resources_of_any_form(kind: str, spec: object) -> None:
    outcome([("r.json", json.dumps({"apiVersion": "x/v1", "kind": kind, "spec": spec}).encode())], Options())


CLUSTER = {"alias": "t", "bootstrapServers": "t:1"}


@given(TREE, TREE, TREE)
def test_a_mirror_with_parts_of_any_form(login: object, tls: object, config: object) -> None:
    source = {"alias": "s", "bootstrapServers": "s:1", "authentication": login, "tls": tls}
    spec = {"target": CLUSTER, "mirrors": [{"source": source, "sourceConnector": {"config": config}}]}
    body = {"apiVersion": "x/v1", "kind": "KafkaMirrorMaker2", "spec": spec}
    outcome([("r.json", json.dumps(body).encode())], Options())
