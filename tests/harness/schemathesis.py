"""Has schemathesis ask a server for all that its OpenAPI document allows, and for what it does not.

It lives in a virtual environment of its own, `build/fuzz-http`: it wants releases of libraries that raymirror may not
want. It gets the server's document with the names that exist filled in, else nearly all it asks for is not found.
"""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from deploy.local.jars import locked

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "build" / "fuzz-http"
WANTED: Final = "schemathesis>=4,<5"
INSTALL_S: Final = 600.0
CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
)
MEANT: Final = '[checks]\nnot_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 501, 503]\n'
"""501 refuses what Connect can do and raymirror cannot, 503 is a probe of what has just begun; 500 is a bug."""
SHOWN: Final = 20_000


class Fuzzed(NamedTuple):
    """How a run ended: whether nothing was found, and what it printed."""

    is_clean: bool
    text: str


def ensure_schemathesis() -> Path | None:
    """Return its command; installs it at the first call. None if it does not install here."""
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    command = FOLDER / "bin" / "st"
    with locked(FOLDER.with_suffix(".lock"), lambda: None):
        if command.exists():
            return command
        install = [str(FOLDER / "bin" / "python"), "-m", "pip", "install", "--quiet", WANTED]
        for words in ([sys.executable, "-m", "venv", str(FOLDER)], install):
            done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_S, check=False)
            if done.returncode:
                sys.stderr.write(f"schemathesis does not install here: {done.stderr.strip()[-500:]}\n")
                return None
    return command


def filled_in(document: dict[str, Any], known: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the document with values of variables of paths that exist; any other value is allowed still."""
    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation["parameters"]:
                if parameter["name"] in known and parameter["in"] == "path":
                    some = {"type": "string", "enum": list(known[parameter["name"]])}
                    parameter["schema"] = {"anyOf": [some, some, some, parameter["schema"]]}
    return document


def fuzz_server(
    url: str,
    known: Mapping[str, Sequence[str]],
    seconds: float,
    folder: Path,
    headers: Mapping[str, str] = {},
    left_out: Sequence[str] = (),
) -> Fuzzed | None:
    """Fuzz a server for so many seconds; None if schemathesis does not install here.

    `known`: names that exist. `left_out`: paths of the document that are not asked, such as one that ends the server.
    """
    command = ensure_schemathesis()
    if command is None:
        return None
    request = urllib.request.Request(f"{url}/openapi.json", headers=dict(headers))
    with urllib.request.urlopen(request, timeout=60) as answer:
        document = filled_in(json.loads(answer.read()), known)
    for path in left_out:
        del document["paths"][path]
    file = folder / "openapi.json"
    file.write_text(json.dumps(document))
    config = folder / "schemathesis.toml"
    config.write_text(MEANT)
    words = [
        *(
            str(command),
            "--config-file",
            str(config),
            "run",
            str(file),
            "--url",
            url,
            "--checks",
            ",".join(CHECKS),
            "--warnings",
            "off",
        ),
        *("--max-time", str(max(1, round(seconds))), "--request-timeout", "120", "--continue-on-failure"),
        *("--phases", "coverage,fuzzing,stateful", "--no-shrink"),
        *(word for name, value in headers.items() for word in ("--header", f"{name}: {value}")),
    ]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=seconds + 600, check=False)
    return Fuzzed(done.returncode == 0, f"{done.stdout[-SHOWN:]}{done.stderr[-SHOWN:]}")
