"""Runs the job `probe` on a running mirror's Spark and prints its report as JSON, in the last line.

`spark_probe TASKS TASK_S [large]`. A separate process, since tests start no Ray; the mirror is the only one at
RAY_ADDRESS. Ray may print above the line.
"""

import os
import sys

import msgspec

from actors.local.session import MirrorPlace
from actors.ray.connect import attach
from actors.ray.mirror import MirrorLost, join
from engine.jobs.runtime.probe import ProbeOptions, ProbeReport
from engine.jobs.runtime.runner import ENDED
from tests.harness.eventually import wait_until

DEADLINE_S = 600.0


def main() -> None:
    """Submit, wait, print."""
    address = os.environ["RAY_ADDRESS"]
    connection = attach(address, local=False)
    mirror = join(connection, MirrorPlace(address=address))
    options = ProbeOptions(tasks=int(sys.argv[1]), task_s=float(sys.argv[2]), large=sys.argv[3:] == ["large"])
    job_id = mirror.submit_job("probe", msgspec.msgpack.encode(options))

    def ended() -> bool:
        try:
            return mirror.job(job_id).state in ENDED
        except MirrorLost:  # it does not answer in time where the machine is at its limit
            return False

    wait_until(ended, "the job ends", DEADLINE_S)
    line, report = mirror.job(job_id), mirror.job_report(job_id)
    assert report is not None, line
    connection.close()
    answer = msgspec.json.encode(msgspec.msgpack.decode(report, type=ProbeReport)).decode()
    sys.stdout.write(f"\n{answer}\n")


if __name__ == "__main__":
    main()
