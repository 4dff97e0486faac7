"""A bare relay: the lower limit of every replicator. It moves the same number of bytes and does not read them.

The feeder and the drain at its ends are separate processes and do not count. The relay measures itself, because its run
is shorter than a poll: CPU and wall time from the first byte to the last.
`python -m bench.systems.relay BYTES [AUTHORITY CHAIN]` prints one JSON object. With the two files (the certificate that
clients trust, and key and certificate of a server) both connections have TLS: it decrypts and encrypts every byte.
"""

import json
import multiprocessing
import socket
import ssl
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

_CHUNK_BYTES = 256 * 1024
_TIMEOUT_S = 120.0
_HOST = "127.0.0.1"


Certificates = tuple[str, str]
"""Files: what clients trust; key and certificate of a server."""


def feed(port: int, size: int, certificates: Certificates | None = None) -> None:
    """Write `size` bytes to a local port, as a TLS server if there are certificates."""
    chunk = memoryview(bytes(_CHUNK_BYTES))
    with _as_server(socket.create_connection((_HOST, port), timeout=_TIMEOUT_S), certificates) as peer:
        while size:
            sent = peer.send(chunk[: min(size, _CHUNK_BYTES)])
            size -= sent


def swallow(reports: Connection, certificates: Certificates | None = None) -> None:
    """Listen, say where, read to the end, say how many bytes came."""
    buffer = bytearray(_CHUNK_BYTES)
    total = 0
    with socket.create_server((_HOST, 0)) as server:
        reports.send(server.getsockname()[1])
        plain, _ = server.accept()
        with _as_server(plain, certificates) as peer:
            while got := peer.recv_into(buffer):
                total += got
    reports.send(total)


def relay(size: int, certificates: Certificates | None = None) -> dict[str, float]:
    """Move `size` bytes from a feeder to a drain; returns bytes that arrived, CPU seconds, wall seconds, peak RSS."""
    reports, ours = multiprocessing.Pipe(duplex=False)
    drain = multiprocessing.Process(target=swallow, args=(ours, certificates))
    drain.start()
    with socket.create_server((_HOST, 0)) as server:
        feeder = multiprocessing.Process(target=feed, args=(server.getsockname()[1], size, certificates))
        feeder.start()
        plain, _ = server.accept()
    onward = socket.create_connection((_HOST, reports.recv()), timeout=_TIMEOUT_S)
    with _as_client(plain, certificates) as source, _as_client(onward, certificates) as target:
        cpu_s, wall_s = _move(source, target)
    arrived = reports.recv()
    feeder.join()
    drain.join()
    return {"bytes": arrived, "cpu_s": cpu_s, "wall_s": wall_s, "peak_rss_bytes": _peak_rss_bytes()}


def _as_server(plain: socket.socket, certificates: Certificates | None) -> socket.socket:
    if certificates is None:
        return plain
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates[1])
    # Nobody resumes a session. A ticket that the relay has not read when it closes would reset the connection.
    context.num_tickets = 0
    return context.wrap_socket(plain, server_side=True)


def _as_client(plain: socket.socket, certificates: Certificates | None) -> socket.socket:
    if certificates is None:
        return plain
    return ssl.create_default_context(cafile=certificates[0]).wrap_socket(plain, server_hostname=_HOST)


def _peak_rss_bytes() -> int:
    # Not getrusage: its maximum survives exec, so it would be the peak of the process that started this one.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM in /proc/self/status")


def _move(source: socket.socket, target: socket.socket) -> tuple[float, float]:
    buffer = bytearray(_CHUNK_BYTES)
    view = memoryview(buffer)
    began_at, began_s = time.perf_counter(), time.process_time()
    while got := source.recv_into(buffer):
        target.sendall(view[:got])
    return time.process_time() - began_s, time.perf_counter() - began_at


if __name__ == "__main__":
    print(json.dumps(relay(int(sys.argv[1]), (sys.argv[2], sys.argv[3]) if len(sys.argv) > 2 else None)))
