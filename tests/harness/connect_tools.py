"""Client code of tools that speak Connect's REST interface, each behind the same calls.

| Tool | Its client code |
| --- | --- |
| Redpanda Console | `github.com/cloudhut/connect-client`, a Go module |
| AKHQ | `org.sourcelab:kafka-connect-client`, Java |
| go-kafka's command line | `github.com/go-kafka/connect`, a Go module |
| Strimzi's operator, kcctl | no registry has them: the requests that they send, over Java's own client |

A tool that cannot be had here (no Go, no registry) raises `NoTool`.
"""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from deploy.local.errors import ClusterError
from deploy.local.jar_list import decode_jars
from deploy.local.jars import cache_folder, ensure_in, say_aloud
from tests.harness.jvm import jvm

GO_TOOLS: Final = Path(__file__).parent / "go_tools"
JARS: Final = Path(__file__).parent / "connect-client-jars.sha256"
BUILD_S: Final = 900.0
_SOURCELAB: Final = "org.sourcelab.kafka.connect.apiclient"


class NoTool(Exception):
    """A tool's client code cannot be had here."""


class ToolError(Exception):
    """What a tool says of an answer that it did not expect: the status and the message that it understood."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.status, self.message = status, message


class ConnectTool(Protocol):
    """A tool as it drives one server. Calls: root, names, expanded, info, status, config, topics, plugins, tasks,
    offsets, validate, put_config, pause, resume, stop, restart, restart_task, delete, create, alter_offsets.
    """

    def has(self, name: str) -> bool:
        """Whether the tool has a call."""

    def ask(self, name: str, *words: Any) -> Any:
        """Make a call; give what the tool understood, as JSON has it. Raises ToolError."""


class GoTool:
    """A program of `go_tools`, which answers a call a line."""

    _CALLS: Final[Mapping[str, str]] = {
        "redpanda-console": "root names expanded info status config topics plugins validate put_config pause resume"
        " stop restart restart_task delete create",
        "go-kafka": "names info status config tasks put_config pause resume restart delete create",
    }

    def __init__(self, tool: str, process: subprocess.Popen[str]) -> None:
        self._calls, self._process = self._CALLS[tool].split(), process

    def has(self, name: str) -> bool:
        return name in self._calls

    def ask(self, name: str, *words: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, *words]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise ToolError(answer["error"]["status"], answer["error"]["message"])
        return answer["value"]


def _built_go_tools() -> Path:
    """Build the Go programs, once for each state of their sources. Raises NoTool."""
    go = shutil.which("go")
    if go is None:
        raise NoTool("Go is not installed")
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(GO_TOOLS.iterdir()))).hexdigest()[:12]
    program = cache_folder() / f"go-tools-{digest}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        part = program.with_suffix(f".{os.getpid()}")
        words = [go, "build", "-mod=readonly", "-o", str(part), "."]
        done = subprocess.run(words, cwd=GO_TOOLS, capture_output=True, text=True, timeout=BUILD_S, check=False)
        if done.returncode:
            raise NoTool(f"go build: {done.stderr.strip()[-500:]}")
        part.replace(program)
    return program


@contextmanager
def go_tool(tool: str, url: str) -> Iterator[ConnectTool]:
    """Run a Go tool against a server. Raises NoTool."""
    words = [str(_built_go_tools()), tool, url]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        try:
            yield GoTool(tool, process)
        finally:
            process.stdin.close()


class JavaTool:
    """A tool in Java: `calls` by name; what they return is read as Jackson writes it."""

    _WITH_STATUS: Final = (
        "InvalidRequestException",
        "ResourceNotFoundException",
        "ConcurrentConfigModificationException",
        "UnauthorizedRequestException",
    )

    def __init__(self, classes: Any, calls: Mapping[str, Callable[..., Any]]) -> None:
        self._calls = calls
        self._mapper = classes.com.fasterxml.jackson.databind.ObjectMapper()

    def has(self, name: str) -> bool:
        return name in self._calls

    def ask(self, name: str, *words: Any) -> Any:
        try:
            found = self._calls[name](*words)
        except Py4JJavaError as failed:
            error = failed.java_exception
            kind = str(error.getClass().getSimpleName())
            status = int(error.getErrorCode()) if kind in self._WITH_STATUS else 0
            raise ToolError(status, f"{kind}: {error.getMessage()}") from None
        return json.loads(self._mapper.writeValueAsString(found))


@contextmanager
def akhq(url: str) -> Iterator[ConnectTool]:
    """Use AKHQ's client code against a server. Raises NoTool."""
    listed = JARS.read_bytes()
    name = f"connect-client-{hashlib.sha256(listed).hexdigest()[:12]}"
    jars = decode_jars(listed.decode())
    try:
        folder = ensure_in(cache_folder(), name, jars, say_aloud)
    except ClusterError as error:
        raise NoTool(str(error)) from None
    with jvm(more=tuple(folder / jar.path for jar in jars)) as classes:
        api = classes.org.sourcelab.kafka.connect.apiclient
        client = api.KafkaConnectClient(api.Configuration(url).useRequestTimeoutInSeconds(120))
        yield JavaTool(classes, _akhq_calls(api, client))


def _akhq_calls(api: Any, client: Any) -> dict[str, Callable[..., Any]]:
    def restart(name: str, tasks: bool, failed: bool) -> Any:
        request = api.request.post.PostConnectorRestart(name).withIncludeTasks(tasks).withOnlyFailed(failed)
        return client.restartConnector(request)

    def validate(plugin: str, config: dict[str, str]) -> Any:
        return client.validateConnectorPluginConfig(api.request.dto.ConnectorPluginConfigDefinition(plugin, config))

    return {
        "root": client.getConnectServerVersion,
        "names": client.getConnectors,
        "expanded": lambda: client.getConnectorsWithAllExpandedMetadata().getMappedStatuses(),
        "info": client.getConnector,
        "status": client.getConnectorStatus,
        "config": client.getConnectorConfig,
        "topics": client.getConnectorTopics,
        "plugins": client.getConnectorPlugins,
        "tasks": client.getConnectorTasks,
        "validate": validate,
        "put_config": client.updateConnectorConfig,
        "pause": client.pauseConnector,
        "resume": client.resumeConnector,
        "stop": client.stopConnector,
        "restart": restart,
        "restart_task": client.restartConnectorTask,
        "delete": client.deleteConnector,
        "create": lambda name, config: client.addConnector(api.request.dto.NewConnectorDefinition(name, config)),
    }


Replay = Mapping[str, tuple[str, str, tuple[int, ...]]]
"""Of each call the method, the path and the statuses that the tool takes for success."""
STRIMZI: Final[Replay] = {
    "names": ("GET", "/connectors", (200,)),
    "info": ("GET", "/connectors/{}", (200, 201)),
    "config": ("GET", "/connectors/{}/config", (200,)),
    "put_config": ("PUT", "/connectors/{}/config", (200, 201)),
    "status": ("GET", "/connectors/{}/status", (200,)),
    "topics": ("GET", "/connectors/{}/topics", (200,)),
    "pause": ("PUT", "/connectors/{}/pause", (202,)),
    "resume": ("PUT", "/connectors/{}/resume", (202,)),
    "stop": ("PUT", "/connectors/{}/stop", (204,)),
    "restart": ("POST", "/connectors/{}/restart?includeTasks={}&onlyFailed={}", (202, 204)),
    "restart_task": ("POST", "/connectors/{}/tasks/{}/restart", (204,)),
    "delete": ("DELETE", "/connectors/{}", (204,)),
    "plugins": ("GET", "/connector-plugins", (200,)),
    "offsets": ("GET", "/connectors/{}/offsets", (200,)),
    "alter_offsets": ("PATCH", "/connectors/{}/offsets", (200,)),
    "reset_offsets": ("DELETE", "/connectors/{}/offsets", (200,)),
    "loggers": ("GET", "/admin/loggers", (200,)),
}
KCCTL: Final[Replay] = {
    "root": ("GET", "/", (200,)),
    "names": ("GET", "/connectors?expand=status", (200,)),
    "expanded": ("GET", "/connectors?expand=status", (200,)),
    "info": ("GET", "/connectors/{}", (200,)),
    "config": ("GET", "/connectors/{}/config", (200,)),
    "put_config": ("PUT", "/connectors/{}/config", (200, 201)),
    "status": ("GET", "/connectors/{}/status", (200,)),
    "topics": ("GET", "/connectors/{}/topics", (200,)),
    "pause": ("PUT", "/connectors/{}/pause", (202,)),
    "resume": ("PUT", "/connectors/{}/resume", (202,)),
    "stop": ("PUT", "/connectors/{}/stop", (204,)),
    "restart": ("POST", "/connectors/{}/restart?includeTasks={}&onlyFailed={}", (202, 204)),
    "restart_task": ("POST", "/connectors/{}/tasks/{}/restart", (204,)),
    "delete": ("DELETE", "/connectors/{}", (204,)),
    "plugins": ("GET", "/connector-plugins?connectorsOnly=false", (200,)),
    "validate": ("PUT", "/connector-plugins/{}/config/validate", (200,)),
    "offsets": ("GET", "/connectors/{}/offsets", (200,)),
    "alter_offsets": ("PATCH", "/connectors/{}/offsets", (200,)),
    "loggers": ("GET", "/admin/loggers", (200,)),
}
_WITH_BODY: Final = ("put_config", "alter_offsets", "validate")


class ReplayedTool:
    """The requests of a tool that no registry has, over Java's own client.

    That client asks for HTTP/2 in its first request, as an upgrade.
    """

    def __init__(self, classes: Any, url: str, calls: Replay) -> None:
        self._http, self._uri, self._url = classes.java.net.http, classes.java.net.URI, url
        self._client, self._calls = self._http.HttpClient.newHttpClient(), calls

    def has(self, name: str) -> bool:
        return name in self._calls

    def ask(self, name: str, *words: Any) -> Any:
        method, path, wanted = self._calls[name]
        *parts, body = words if name in _WITH_BODY else (*words, None)
        filled = path.format(*(quote(str(part).lower() if part in (True, False) else str(part)) for part in parts))
        publishers = getattr(self._http, "HttpRequest$BodyPublishers")
        publisher = publishers.noBody() if body is None else publishers.ofString(json.dumps(body))
        request = (
            self._http.HttpRequest.newBuilder()
            .uri(self._uri.create(f"{self._url}{filled}"))
            .method(method, publisher)
            .setHeader("Accept", "application/json")
            .setHeader("Content-Type", "application/json")
            .build()
        )
        answer = self._client.send(request, getattr(self._http, "HttpResponse$BodyHandlers").ofString())
        status, text = int(answer.statusCode()), str(answer.body())
        found = json.loads(text) if text else None
        if status not in wanted:
            raise ToolError(status, found["message"] if isinstance(found, dict) else text)
        return found


@contextmanager
def replayed(calls: Replay, url: str) -> Iterator[ConnectTool]:
    """Send a tool's requests to a server."""
    with jvm() as classes:
        yield ReplayedTool(classes, url, calls)


TOOLS: Final[Mapping[str, Callable[[str], Any]]] = {
    "Redpanda Console": lambda url: go_tool("redpanda-console", url),
    "go-kafka": lambda url: go_tool("go-kafka", url),
    "AKHQ": akhq,
    "Strimzi": lambda url: replayed(STRIMZI, url),
    "kcctl": lambda url: replayed(KCCTL, url),
}
"""How each tool is opened for the address of a server."""
