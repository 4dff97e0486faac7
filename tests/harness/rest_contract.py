"""One table of requests to Kafka Connect's REST interface, sent to a real worker and to raymirror; answers compared.

Compared are the status, the headers that clients read, the message of a refusal word for word, and the shape of any
other body: the names of fields and the types of values. `MEANT` lists each request that is answered in another way, and
why; the test fails if one of them is answered alike.
"""

import http.client
import json
from typing import Any, NamedTuple

JSON = "application/json"
SOURCE, CHECKPOINT, HEARTBEAT = (f"{{flow}}.Mirror{kind}Connector" for kind in ("Source", "Checkpoint", "Heartbeat"))
PLUGIN = "/connector-plugins/MirrorSourceConnector/config"
FREE = ("config",)
"""Fields whose names are data: a map of strings."""
OPTIONAL = ("trace",)
"""Fields that appear only if there is something to say."""
COMPARED = ("content-type", "allow", "location")


class ContractRow(NamedTuple):
    """A request. `{flow}` in target and body stands for the flow of the server, `{source}` in a body for its source;
    `name` is unique.
    """

    name: str
    method: str
    target: str
    body: object = None
    headers: tuple[tuple[str, str], ...] = ()


class Reply(NamedTuple):
    """What was answered."""

    status: int
    headers: dict[str, str]
    body: Any


def _reads(state: str, connector: str) -> list[ContractRow]:
    """Return the requests that read a connector."""
    one = f"/connectors/{connector}"
    paths = ("", "/config", "/status", "/tasks", "/topics", "/offsets", "/tasks/0/status")
    short = connector.partition(".")[2].removeprefix("Mirror").removesuffix("Connector").lower()
    return [ContractRow(f"{state}: {short}{path or ' info'}", "GET", f"{one}{path}") for path in paths]


def _missing() -> list[ContractRow]:
    """Return requests about a connector that does not exist."""
    x = "/connectors/none"
    rows = [
        *(("GET", path) for path in ("", "/config", "/status", "/tasks", "/tasks/0/status", "/topics", "/offsets")),
        *(("PUT", path) for path in ("/pause", "/resume", "/stop", "/topics/reset")),
        *(("POST", path) for path in ("/restart", "/restart?includeTasks=true&onlyFailed=true", "/tasks/0/restart")),
        ("DELETE", ""),
        ("DELETE", "/offsets"),
    ]
    found = [ContractRow(f"missing: {method} {path}", method, f"{x}{path}") for method, path in rows]
    offsets = {"offsets": [{"partition": {"a": "b"}, "offset": None}]}
    return [
        *found,
        ContractRow("missing: PATCH config", "PATCH", f"{x}/config", {"tasks.max": "1"}),
        ContractRow("missing: PATCH offsets", "PATCH", f"{x}/offsets", offsets),
    ]


def _spellings() -> list[ContractRow]:
    encoded = SOURCE.replace("{flow}", "{quoted}")
    return [
        ContractRow("slash at the end", "GET", "/connectors/"),
        ContractRow("slash at the end of a connector", "GET", f"/connectors/{SOURCE}/status/"),
        ContractRow("two slashes", "GET", "//connectors"),
        ContractRow("name with %3E", "GET", f"/connectors/{encoded}/status"),
        ContractRow("name with %2D%3E", "GET", f"/connectors/{SOURCE.replace('{flow}', '{hex}')}/status"),
        ContractRow(
            "h2c of Java's client",
            "GET",
            "/connectors",
            headers=(("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAEAAEAA")),
        ),
        ContractRow("unknown path", "GET", "/none"),
        ContractRow("unknown path of a connector", "GET", f"/connectors/{SOURCE}/none"),
        ContractRow("task without a number", "GET", f"/connectors/{SOURCE}/tasks/x/status"),
        ContractRow("task that is not there", "GET", f"/connectors/{SOURCE}/tasks/77/status"),
        ContractRow("restart of a task that is not there", "POST", f"/connectors/{SOURCE}/tasks/77/restart"),
        ContractRow("HEAD", "HEAD", "/connectors"),
        ContractRow("OPTIONS", "OPTIONS", "/connectors"),
        ContractRow("method that is not there", "DELETE", "/connectors"),
        ContractRow("method that no path has", "PATCH", f"/connectors/{SOURCE}/pause"),
        ContractRow("accepts HTML only", "GET", "/connectors", headers=(("Accept", "text/html"),)),
        ContractRow("accepts anything", "GET", "/connectors", headers=(("Accept", "*/*"),)),
        ContractRow("body of a form", "PUT", f"{PLUGIN}/validate", b"a=b", (("Content-Type", "text/plain"),)),
        ContractRow("body that is no JSON", "PUT", f"{PLUGIN}/validate", b"{", (("Content-Type", JSON),)),
        ContractRow("body that is a list", "PUT", f"{PLUGIN}/validate", [1]),
        ContractRow("unknown word of expand", "GET", "/connectors?expand=other"),
    ]


def _configs() -> list[ContractRow]:
    config = {"name": "new", "connector.class": "MirrorSourceConnector", "source.cluster.alias": "a"}
    new = {"name": "new", "config": config}
    return [
        ContractRow("create: other name", "POST", "/connectors", {"name": "new", "config": {"name": "x"}}),
        ContractRow("create: no class", "POST", "/connectors", {"name": "new", "config": {"topics": "x"}}),
        ContractRow("create: invalid", "POST", "/connectors", {**new, "config": {**config, "tasks.max": "x"}}),
        ContractRow("create: unknown class", "POST", "/connectors", {**new, "config": {"connector.class": "x.Y"}}),
        ContractRow("put: other name", "PUT", f"/connectors/{SOURCE}/config", {"name": "x"}),
        ContractRow("put: no class", "PUT", "/connectors/new/config", {"topics": "x"}),
        ContractRow("put: invalid", "PUT", "/connectors/new/config", {**config, "tasks.max": 0}),
        ContractRow("patch: nothing", "PATCH", f"/connectors/{SOURCE}/config", {}),
        ContractRow("offsets: none", "PATCH", f"/connectors/{SOURCE}/offsets", {"offsets": []}),
        ContractRow("plugins", "GET", "/connector-plugins"),
        ContractRow("plugin: source", "GET", PLUGIN),
        ContractRow("plugin: checkpoint", "GET", "/connector-plugins/MirrorCheckpoint/config"),
        ContractRow(
            "plugin: heartbeat",
            "GET",
            "/connector-plugins/org.apache.kafka.connect.mirror.MirrorHeartbeatConnector/config",
        ),
        ContractRow("plugin: unknown", "GET", "/connector-plugins/none/config"),
        ContractRow("validate: no class", "PUT", f"{PLUGIN}/validate", {"topics": "x"}),
        ContractRow("validate: fine", "PUT", f"{PLUGIN}/validate", config),
        ContractRow("validate: wrong values", "PUT", f"{PLUGIN}/validate", {**config, "tasks.max": "x", "topics": ""}),
        ContractRow("validate: null", "PUT", f"{PLUGIN}/validate", {**config, "topics": None}),
        ContractRow("validate: other class", "PUT", f"{PLUGIN}/validate", {**config, "connector.class": "X"}),
        ContractRow(
            "validate: unknown plugin", "PUT", "/connector-plugins/X/config/validate", {"connector.class": "X"}
        ),
        ContractRow("loggers", "GET", "/admin/loggers"),
        ContractRow("logger: root", "GET", "/admin/loggers/root"),
        ContractRow("logger: unknown", "GET", "/admin/loggers/none"),
        ContractRow("logger: no level", "PUT", "/admin/loggers/root", {}),
        ContractRow("logger: unknown level", "PUT", "/admin/loggers/root", {"level": "loud"}),
        ContractRow("logger: a level", "PUT", "/admin/loggers/root", {"level": "WARN"}),
    ]


def reading(state: str) -> list[ContractRow]:
    """Return what is read in each state."""
    rows = [row for connector in (SOURCE, CHECKPOINT, HEARTBEAT) for row in _reads(state, connector)]
    return [
        *rows,
        ContractRow(f"{state}: list", "GET", "/connectors"),
        ContractRow(f"{state}: status of all", "GET", "/connectors?expand=status"),
        ContractRow(f"{state}: info of all", "GET", "/connectors?expand=info"),
        ContractRow(f"{state}: all of all", "GET", "/connectors?expand=info&expand=status"),
    ]


RUNNING = [
    ContractRow("root", "GET", "/"),
    ContractRow("health", "GET", "/health"),
    *reading("running"),
    *_missing(),
    *_spellings(),
    *_configs(),
    ContractRow("offsets: not stopped", "DELETE", f"/connectors/{SOURCE}/offsets"),
    ContractRow("restart", "POST", f"/connectors/{SOURCE}/restart"),
    ContractRow("restart: only failed", "POST", f"/connectors/{SOURCE}/restart?onlyFailed=true"),
    ContractRow("restart: failed tasks", "POST", f"/connectors/{SOURCE}/restart?includeTasks=true&onlyFailed=true"),
    ContractRow("restart: with tasks", "POST", f"/connectors/{SOURCE}/restart?includeTasks=true"),
    ContractRow("restart: checkpoint", "POST", f"/connectors/{CHECKPOINT}/restart?includeTasks=true"),
    ContractRow("restart: heartbeat", "POST", f"/connectors/{HEARTBEAT}/restart"),
    ContractRow("resume while running", "PUT", f"/connectors/{SOURCE}/resume"),
]
PAUSE = ContractRow("pause", "PUT", f"/connectors/{SOURCE}/pause")
RESUME = ContractRow("resume", "PUT", f"/connectors/{SOURCE}/resume")
STOP = ContractRow("stop", "PUT", f"/connectors/{SOURCE}/stop")
STOP_GROUPS = ContractRow("stop of groups", "PUT", f"/connectors/{CHECKPOINT}/stop")
RESUME_GROUPS = ContractRow("resume of groups", "PUT", f"/connectors/{CHECKPOINT}/resume")
"""In raymirror the groups of a flow stop and resume with it, so these only confirm what is so."""

_BODY = "Connect says nothing but the status; raymirror says why, and which methods there are"
_READS = "raymirror stores no offset for a group"
MEANT = {
    "two slashes": "Connect's body is Jetty's page in HTML",
    "unknown path": _BODY,
    "unknown path of a connector": _BODY,
    "method that is not there": _BODY,
    "method that no path has": _BODY,
    "accepts HTML only": _BODY,
    "body of a form": _BODY,
    "body that is no JSON": "a request that cannot be read is the client's error: 400, not 500",
    "body that is a list": "the same",
    "create: unknown class": "the same",
    "validate: unknown plugin": "the same",
    "put: no class": "Connect repeats all settings, which may hold passwords",
    "create: no class": "the same",
    "validate: no class": "the same",
    "missing: PUT /topics/reset": "raymirror does not collect topics, so it cannot forget them: 403",
    "running: checkpoint/offsets": _READS,
    "paused: checkpoint/offsets": _READS,
    "stopped: checkpoint/offsets": _READS,
}
"""Requests that are answered in another way, and why."""


class RestServer:
    """A server of the interface: its address, and the flow that it copies."""

    def __init__(self, port: int, flow: str) -> None:
        self.port, self.flow = port, flow

    def send(self, row: ContractRow) -> Reply:
        """Send a request of the table."""
        body = json.dumps(row.body).encode() if not isinstance(row.body, bytes | None) else row.body
        alias = self.flow.partition("->")[0]
        data = body.replace(b"{flow}", self.flow.encode()).replace(b"{source}", alias.encode()) if body else body
        headers = dict(row.headers)
        if data is not None:
            headers.setdefault("Content-Type", JSON)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(row.method, self._filled(row.target), data, headers)
            answer = connection.getresponse()
            found = answer.read()
            return Reply(
                answer.status,
                {name.lower(): value for name, value in answer.getheaders()},
                json.loads(found) if found and answer.headers.get_content_type() == JSON else found.decode(),
            )
        finally:
            connection.close()

    def _filled(self, target: str) -> str:
        quoted, every = self.flow.replace(">", "%3E"), self.flow.replace("->", "%2D%3E")
        return target.replace("{flow}", quoted).replace("{quoted}", quoted).replace("{hex}", every)

    def compared(self, row: ContractRow) -> tuple[int, dict[str, str], Any]:
        """Send a request, and return what must be equal of its answer."""
        reply = self.send(row)
        headers = {name: value for name, value in reply.headers.items() if name in COMPARED}
        if "allow" in headers:
            headers["allow"] = ",".join(sorted(headers["allow"].replace(" ", "").split(",")))
        path = row.target.partition("?")[0].rstrip("/")
        field = "config" if path.startswith("/connectors") and path.endswith("/config") else path
        return reply.status, headers, shape_of(_neutral(reply.body, self.flow), field)


def _neutral(body: Any, flow: str) -> Any:
    """Return a body with another name for the flow."""
    return json.loads(json.dumps(body).replace(json.dumps(flow)[1:-1], "A->B"))


def shape_of(body: Any, field: str = "") -> Any:
    """Return what a client relies on: refusals word for word, else the names of fields and the types of values.

    `field`: where the body is, a field of another one or the path of the request.
    """
    if isinstance(body, dict):
        if body.keys() == {"error_code", "message"}:
            return body
        if "documentation" in body:  # the definition of a setting: all but the words
            return {name: value for name, value in body.items() if name != "documentation"}
        if "recommended_values" in body:  # its value: Connect also names classes that it has found
            return {name: value for name, value in body.items() if name != "recommended_values"}
        if field == "/admin/loggers":
            return {"*": shape_of(next(iter(body.values())))}
        if field in FREE:
            return {"*": sorted({type(value).__name__ for value in body.values()})}
        return {name: shape_of(value, name) for name, value in body.items() if name not in OPTIONAL}
    if isinstance(body, list):
        is_of_settings = bool(body) and isinstance(body[0], dict) and {"documentation", "definition"} & body[0].keys()
        return [shape_of(one) for one in (body if is_of_settings else body[:1])]
    return body if field in ("state", "type", "status") else type(body).__name__
