"""What the proxy of the bench `wan` carries: bytes a second over many connections at a distance, and what it costs.

`python -m bench.micro.distance [--connections 64] [--seconds 5] [--rtt-ms 100] [--window BYTES] [--late 0]`. A process
writes to all connections as fast as they take it, another reads them; the proxy between them is measured. Prints a line
of JSON.
"""

import argparse
import json
import multiprocessing
import selectors
import socket
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from bench.figures import machine
from bench.wan.distance import Distance, DistanceProxy, compile_proxy
from deploy.local.ports import HOST, pick_ports

_CHUNK_BYTES = 256 * 1024
_MIB = 1024 * 1024
_WARM_UP_S = 1.0
_TIMEOUT_S = 30.0


def feed(port: int, connections: int) -> None:
    """Write to so many connections until it is ended."""
    chunk = bytes(_CHUNK_BYTES)
    with selectors.DefaultSelector() as selector:
        for _ in range(connections):
            peer = socket.create_connection((HOST, port), timeout=_TIMEOUT_S)
            peer.setblocking(False)
            selector.register(peer, selectors.EVENT_WRITE)
        while True:
            for key, _ in selector.select():
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.send(chunk)


def drain(reports: Connection, connections: int) -> None:
    """Listen, say where, read everything until it is ended; answer each message with the bytes read so far."""
    buffer, total = bytearray(_CHUNK_BYTES), 0
    with socket.create_server((HOST, 0), backlog=connections) as server, selectors.DefaultSelector() as selector:
        selector.register(server, selectors.EVENT_READ)
        selector.register(reports, selectors.EVENT_READ)
        reports.send(server.getsockname()[1])
        while True:
            for key, _ in selector.select():
                if key.fileobj is server:
                    peer, _ = server.accept()
                    selector.register(peer, selectors.EVENT_READ)
                elif key.fileobj is reports:
                    reports.recv()
                    reports.send(total)
                elif isinstance(key.fileobj, socket.socket):
                    total += key.fileobj.recv_into(buffer)


def measure(distance: Distance, connections: int, seconds: float) -> dict[str, float]:
    """Carry bytes for some seconds; returns what arrived and what it cost. Raises BenchError."""
    reports, theirs = multiprocessing.Pipe()
    draining = multiprocessing.Process(target=drain, args=(theirs, connections), daemon=True)
    draining.start()
    (port,) = pick_ports(1)
    feeding = multiprocessing.Process(target=feed, args=(port, connections), daemon=True)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="raymirror-bench-") as folder,
            DistanceProxy(compile_proxy(Path(folder)), distance, {port: reports.recv()}) as proxy,
        ):
            feeding.start()
            try:
                time.sleep(_WARM_UP_S + distance.rtt_ms / 1000)
                first_at, first, before = time.perf_counter(), _total(reports), proxy.read()
                time.sleep(seconds)
                last_at, last, after = time.perf_counter(), _total(reports), proxy.read()
            finally:
                feeding.kill()
                feeding.join()
    finally:
        draining.kill()
        draining.join()
    mib, cpu_s = (last - first) / _MIB, after.cpu_s - before.cpu_s
    return {
        "mib_per_s": round(mib / (last_at - first_at), 1),
        "cpu_share": round(cpu_s / (last_at - first_at), 3),
        "cpu_s_per_gib": round(cpu_s / mib * 1024, 3),
        "held_most_mib": round(after.held_most_bytes / _MIB, 1),
        "late_chunks": after.late_chunks - before.late_chunks,
        "chunks": after.chunks - before.chunks,
    }


def _total(reports: Connection) -> int:
    reports.send(None)
    return int(reports.recv())


def main() -> int:
    """Print the figures of one distance."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro.distance", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rtt-ms", type=float, default=100.0)
    parser.add_argument("--window", type=int, default=0, metavar="BYTES", help="of each connection (default: none)")
    parser.add_argument("--late", type=float, default=0.0, help="share of the chunks that come 300 ms late")
    args = parser.parse_args()
    distance = Distance(
        rtt_ms=args.rtt_ms, request_window_bytes=args.window, late_share=args.late, late_ms=300.0 if args.late else 0.0
    )
    found = measure(distance, args.connections, args.seconds)
    print(json.dumps({"bench": "micro.distance", **vars(args), **found, "machine": machine()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
