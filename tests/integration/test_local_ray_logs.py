"""The output of Ray's processes on this machine is bounded, and a crashed worker still reports where it crashed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.ray_temp import ray_temp_folder
from tests.harness.shell import DEADLINE_S, Shell

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

MOST_BYTES = 100_000
SCRIPT = f"""
DEADLINE_S, MOST_BYTES = {DEADLINE_S}, {MOST_BYTES}
import time
from actors.ray.connect import start_local

connection = start_local(1)
ray = connection.ray

@ray.remote
class Talker:
    def __init__(self):
        from actors.logging.logs import setup_logging
        self.logs = setup_logging("talker", "talker")

    def talk(self):
        for _ in range(10_000):
            print("x" * 99)

    def crash(self):
        import ctypes
        ctypes.string_at(0)

def written():
    return sum(path.stat().st_size for path in connection.logs.glob("worker-*"))

talker = Talker.remote()
ray.get(talker.talk.remote())
give_up_at = time.monotonic() + DEADLINE_S  # a crash takes along what the worker's own logger has not written yet
while written() <= 2 * MOST_BYTES and time.monotonic() < give_up_at:
    time.sleep(0.1)
try:
    ray.get(talker.crash.remote())
except ray.exceptions.ActorDiedError:
    pass
for path in connection.logs.glob("worker-*"):
    print("SIZE", path.stat().st_size)
for path in connection.logs.glob("worker-*.err"):
    print(path.read_text())
connection.close()
"""


def test_a_workers_output_is_rotated_and_its_crash_is_told(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with ray_temp_folder() as temp:
        env = {**shell.env, "TMPDIR": temp, "RAY_ROTATION_MAX_BYTES": str(MOST_BYTES)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        assert not list(Path(temp).iterdir())
    assert done.returncode == 0, done.stderr
    sizes = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("SIZE")]
    assert 2 * MOST_BYTES < sum(sizes) <= 4 * MOST_BYTES  # 1,000,000 were printed; two older files are kept
    assert "Fatal Python error: Segmentation fault" in done.stdout
    assert "in crash" in done.stdout
