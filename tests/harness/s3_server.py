"""A real S3 server on this machine: versitygw, built once by Go into the user's cache.

One of several racing conditional puts wins there, which commits of tables need; `test_object_storage.py` checks that
first. Servers that let several win are not for these tests.
"""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.local.jars import cache_folder, say_aloud
from deploy.local.ports import HOST, pick_ports

VERSION = "v1.8.0"
MODULE = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
BUILD_S = 1800.0
"""Seconds for the build: it compiles some 400 packages, on a machine where other tests run."""
START_S = 60.0
KEY, SECRET = "raymirror-tests", "a secret that no output may show"
BUCKET = "kept"


def server_program() -> Path:
    """Return the program, built by Go if it is not in the cache; skips the test where there is no Go."""
    program = cache_folder() / f"versitygw-{VERSION}" / "versitygw"
    if program.is_file():
        return program
    go = shutil.which("go")
    if go is None:
        pytest.skip(f"no test of object storage ran: versitygw {VERSION} is built by Go, and there is no `go` on PATH")
    program.parent.mkdir(parents=True, exist_ok=True)
    with (program.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.is_file():
            _build(go, program)
    return program


def _build(go: str, program: Path) -> None:
    say_aloud(f"building versitygw {VERSION} into {program.parent}, once: some minutes")
    part = program.parent / "part"
    env = {**os.environ, "GOBIN": str(part), "GOFLAGS": "-buildvcs=false", "CGO_ENABLED": "0"}
    done = subprocess.run(
        [go, "install", MODULE], env=env, capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    assert done.returncode == 0, f"go install {MODULE}: exit {done.returncode}\n{done.stderr[-2000:]}"
    (part / program.name).rename(program)


class S3Server:
    """A running server over a folder, with one bucket."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port

    def environment(self, *, port: int | None = None) -> dict[str, str]:
        """Return the variables by which every client finds the server, or a proxy at another port, and may write."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": f"http://{HOST}:{port or self.port}",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/nowhere/config",
            "AWS_SHARED_CREDENTIALS_FILE": "/nowhere/credentials",
            "AWS_CREDENTIAL_PROFILES_FILE": "/nowhere/credentials",
        }


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """Start a server whose data are in a folder, and end it by its pid."""
    (folder / "data" / BUCKET).mkdir(parents=True)
    with _running(folder, []) as server:
        yield server


@contextmanager
def full_s3_server(folder: Path, size_bytes: int) -> Iterator[S3Server]:
    """Start a server with a small disk: a file system in memory, which ends with it. Skips where none can be made."""
    (folder / "data").mkdir(parents=True)
    spaces = ["unshare", "--mount", "--user", "--map-root-user"]
    mount = f'mount -t tmpfs -o size={size_bytes} none "$0" && mkdir "$0/{BUCKET}" && exec "$@"'
    inside = [*spaces, "sh", "-c", mount, str(folder / "data")]
    tried = subprocess.run([*inside, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(
            f"no test of a full store ran: this machine makes no file system for a test ({tried.stderr.strip()})"
        )
    with _running(folder, inside) as server:
        yield server


@contextmanager
def _running(folder: Path, inside: list[str]) -> Iterator[S3Server]:
    data, sidecar = folder / "data", folder / "sidecar"
    sidecar.mkdir()
    (port,) = pick_ports(1)
    command = [*inside, str(server_program()), "--port", f"{HOST}:{port}", "--quiet"]
    command += ["posix", "--sidecar", str(sidecar), str(data)]
    env = {**os.environ, "ROOT_ACCESS_KEY_ID": KEY, "ROOT_SECRET_ACCESS_KEY": SECRET}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    try:
        _until_it_listens(process, port, folder / "server.log")
        yield S3Server(data, port)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(START_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until_it_listens(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up_at_s = time.monotonic() + START_S
    while not _listens(port):
        assert process.poll() is None, f"the server ended: {log.read_text()[-2000:]}"
        assert time.monotonic() < give_up_at_s, f"the server does not listen: {log.read_text()[-2000:]}"
        time.sleep(0.05)


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True
