"""Recognises what each input file is, and takes it apart: clients' files, Connect workers, connectors, resources."""

import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from engine.base.errors import ConfigError
from engine.config.file.file_kind import is_yaml
from engine.config.file.properties import parse_properties
from engine.convert.clients import CONSUMER_MARKS, PRODUCER_MARKS
from engine.convert.model import Given, InputFile, Origin
from engine.convert.nodes import Branch, Items, Node, parse_json, parse_yaml_documents
from policies.files.foreign_files import UTF_8_BOM, foreign_bytes
from policies.keys.kafka_keys import LIBRDKAFKA

CONSUMER, PRODUCER, CLIENT, WORKER, MM2, CONNECTOR = "consumer", "producer", "client", "worker", "mm2", "connector"
REPLICATION, CLUSTERS, MAPPING, HELIX = "replication", "clusters", "mapping", "helix"

Settings = dict[str, Given]

_JSON = re.compile(r"\s*[{\[]")
_RESOURCE = re.compile(r"^(?:apiVersion|kind):", re.MULTILINE)
_PAIR = re.compile(r"[A-Za-z0-9._\-]+[ \t]+[A-Za-z0-9._\-]+")
_KNOWN = (
    "give MirrorMaker 1's consumer and producer files, connectors as Kafka Connect's REST shows them, a"
    " KafkaMirrorMaker2, or Confluent Replicator's or uReplicator's files"
)


def _has(*names: str) -> Callable[[Settings], bool]:
    return lambda settings: any(name in settings for name in names)


def _begins(*starts: str) -> Callable[[Settings], bool]:
    return lambda settings: any(key.startswith(starts) for key in settings)


_ROLES: tuple[tuple[str, Callable[[Settings], bool]], ...] = (
    (CONNECTOR, _has("connector.class")),
    (MM2, lambda settings: "clusters" in settings or any("->" in key for key in settings)),
    (CLUSTERS, _begins("kafka.cluster.servers.", "kafka.cluster.zkStr.", "secure.kafka.cluster.servers.")),
    (HELIX, lambda settings: "helixClusterName" in settings or "zkServer" in settings),
    (HELIX, _begins("controller.")),
    (REPLICATION, _has("topic.whitelist", "topic.regex", "topic.rename.format")),
    (WORKER, _has("config.storage.topic", "offset.storage.topic", "offset.storage.file.filename", "key.converter")),
    (CONSUMER, lambda settings: _begins(*CONSUMER_MARKS)(settings) and not _begins(*PRODUCER_MARKS)(settings)),
    (PRODUCER, lambda settings: _begins(*PRODUCER_MARKS)(settings) and not _begins(*CONSUMER_MARKS)(settings)),
    (CLIENT, _has("bootstrap.servers")),
)
"""What a `.properties` file is, by its keys; the first that fits."""


class FoundConnector(msgspec.Struct, frozen=True):
    """A connector: name (empty: not known), where it begins, its configuration, and its state if that is known."""

    name: str
    origin: Origin
    config: Settings
    state: Given | None = None

    @property
    def class_name(self) -> str:
        """The last part of its class: `MirrorSourceConnector`."""
        found = self.config.get("connector.class")
        return found.text.strip().rpartition(".")[2] if found else ""


class FoundFile(msgspec.Struct, frozen=True):
    """A file of settings, by its role."""

    role: str
    origin: Origin
    settings: Settings


class Inputs(msgspec.Struct, frozen=True):
    """Everything that the input files contain."""

    files: tuple[FoundFile, ...] = ()
    connectors: tuple[FoundConnector, ...] = ()
    resources: tuple[Branch, ...] = ()

    def of(self, role: str) -> list[FoundFile]:
        """Return the files of a role."""
        return [file for file in self.files if file.role == role]


def read_inputs(files: Iterable[InputFile]) -> Inputs:
    """Recognise input files. Raises ConfigError with the file and the line for one that is nothing known."""
    found: list[FoundFile] = []
    connectors: list[FoundConnector] = []
    resources: list[Branch] = []
    for file in files:
        text = _text(file)
        nodes = _nodes(text, file)
        if nodes is None:
            part = _settings_file(text, file)
            if part.role == CONNECTOR:
                connectors.append(_of_config(part.settings, part.origin))
            else:
                found.append(part)
            continue
        if not nodes:
            raise ConfigError(file.name, 0, "file", "empty", _KNOWN)
        for node in nodes:
            here = list(_resources(node))
            resources += here
            connectors += [] if here else list(connectors_of(node))
    return Inputs(tuple(_decided(found)), tuple(connectors), tuple(resources))


def _text(file: InputFile) -> str:
    foreign = foreign_bytes(file.data)
    if foreign is not None:
        raise ConfigError(file.name, foreign.line, "file", foreign.what, foreign.right)
    data = file.data.removeprefix(UTF_8_BOM)
    text = data.decode("iso-8859-1")
    if not (_JSON.match(text) or _is_yaml(text, file)):
        return text
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(file.name, line, "file", "bytes that are not UTF-8", "save the file as UTF-8") from None


def _is_yaml(text: str, file: InputFile) -> bool:
    return is_yaml(file.name) or _RESOURCE.search(text) is not None


def _nodes(text: str, file: InputFile) -> list[Node] | None:
    """Return the trees of a JSON or YAML file, None for a file of another kind."""
    if _JSON.match(text):
        return [parse_json(text, file.name)]
    return parse_yaml_documents(text, file.name) if _is_yaml(text, file) else None


def _settings_file(text: str, file: InputFile) -> FoundFile:
    origin = Origin(file.name, 0, "")
    lines = [line.strip() for line in text.splitlines()]
    entries = parse_properties(text, file.name).entries
    settings = {key: Given(one.value, Origin(file.name, one.line, key)) for key, one in entries.items()}
    if not settings:
        raise origin.error("empty", _KNOWN)
    if file.role:
        return FoundFile(file.role, origin, settings)
    if all(_PAIR.fullmatch(line) for line in lines if line and not line.startswith("#")):
        return FoundFile(MAPPING, origin, settings)
    if old := sorted(LIBRDKAFKA.keys() & settings.keys() - {"metadata.broker.list"}):
        raise settings[old[0]].origin.error(
            "this is a key of librdkafka, which no mirror of these kinds uses", f"write {LIBRDKAFKA[old[0]]}"
        )
    role = next((role for role, fits in _ROLES if fits(settings)), None)
    if role is None:
        raise origin.error("nothing in it shows what it is", _KNOWN)
    return FoundFile(role, origin, settings)


def _decided(found: list[FoundFile]) -> Iterator[FoundFile]:
    """Yield the files; clients' files that may be either are the consumer or the producer by name, then by order."""
    missing = [role for role in (CONSUMER, PRODUCER) if all(file.role != role for file in found)]
    for file in found:
        role = file.role
        if role == CLIENT:
            named = [one for one in missing if one in file.origin.file.lower()]
            role = next(iter(named or missing), CLIENT)
            if role in missing:
                missing.remove(role)
        yield FoundFile(role, file.origin, file.settings)


def _resources(node: Node) -> Iterator[Branch]:
    """Yield Kubernetes' resources, those of a List too. Raises ConfigError."""
    if not isinstance(node, Branch) or "kind" not in node.entries or "apiVersion" not in node.entries:
        return
    if (node.text("kind") or "").endswith("List"):
        for item in node.branches("items"):
            yield from _resources(item)
    else:
        yield node


def connectors_of(node: Node) -> Iterator[FoundConnector]:
    """Yield the connectors of a tree as Connect's REST, kcctl or a POST has it. Raises ConfigError.

    The forms are those of GET /connectors/NAME, /connectors/NAME/config, /connectors?expand=info, and lists of them.
    """
    if isinstance(node, Items) and node.items:
        for item in node.items:
            yield from connectors_of(item)
        return
    if not isinstance(node, Branch):
        raise node.origin.error("no connector is in it", _KNOWN)
    if "connector.class" in node.entries:
        yield _of_config(dict(node.values()), node.origin)
    elif isinstance(node.get("config"), Branch):
        yield _of_info(node, None)
    elif isinstance(node.get("info"), Branch):
        yield _of_info(node.branch("info"), node)
    else:
        yield from _of_map(node)


def _of_map(node: Branch) -> Iterator[FoundConnector]:
    parts = list(node.entries.values())
    if not parts or not all(isinstance(part, Branch) for part in parts):
        raise node.origin.error("no connector is in it", _KNOWN)
    for part in parts:
        if isinstance(part, Branch) and "status" in part.entries and "info" not in part.entries:
            raise part.origin.error("the state of a connector, without its configuration", "ask for ?expand=info")
        yield from connectors_of(part)


def _of_info(info: Branch, whole: Branch | None) -> FoundConnector:
    config = dict(info.branch("config").values())
    found = _of_config(config, info.branch("config").origin)
    state = None
    if whole is not None and whole.get("status") is not None:
        connector = whole.branch("status").branch("connector")
        text = connector.text("state")
        state = Given(text, connector.at("state")) if text else None
    return FoundConnector(info.text("name") or found.name, found.origin, config, state)


def _of_config(config: Settings, origin: Origin) -> FoundConnector:
    name = config.get("name")
    return FoundConnector(name.text if name else "", origin, config)
