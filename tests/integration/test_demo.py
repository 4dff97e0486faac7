"""The demo as a user runs it: both proofs, the answers, the page; and nothing of it is left behind."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from actors.demo.answers import PAGE_PREFIX
from actors.demo.play import ALL_TOPICS
from tests.harness.ray_temp import ray_temp_folder
from tests.harness.shell import Shell

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

DEADLINE_S = 900.0


def test_the_demo_proves_its_copy_twice_and_leaves_nothing_behind(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with ray_temp_folder() as temp:
        done = subprocess.run(
            [sys.executable, "-m", "actors", "demo", "--json"],
            env={**shell.env, "TMPDIR": temp},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        left = sorted(path.name for path in Path(temp).iterdir() if path.name.startswith(("rmdemo-", PAGE_PREFIX)))
        page = "".join((Path(temp) / name).read_text() for name in left if name.startswith(PAGE_PREFIX))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    records = sum(one["records"] for one in told["partitions"])
    assert (told["whole"], {one["difference"] for one in told["partitions"]}) == (True, {""})
    assert {one["topic"] for one in told["partitions"]} == set(ALL_TOPICS)
    assert [one for one in psutil.process_iter(["cmdline"]) if temp in " ".join(one.info["cmdline"] or ())] == []
    spark = told["spark"]
    if spark["left_out"]:
        pytest.skip(f"without Spark: {spark['left_out']}")
    assert (spark["trouble"], spark["proof"]["whole"], spark["proof"]["records"]) == ("", True, records)
    lag, proof = (one["rows"] for one in spark["answers"])
    assert {row["topic"] for row in proof} == set(ALL_TOPICS)
    assert sum(row["proven"] for row in proof) == records
    assert 0 < sum(row["copied"] for row in lag) <= records, "a sample may be lost"
    assert left == [Path(spark["report"]).name], "the page, and nothing else"
    assert "source-&gt;target" in page
