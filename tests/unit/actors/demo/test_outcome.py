"""The demo's result: whole only if both comparisons agree, and the sentences about it."""

from typing import Any

import msgspec
import pytest

from actors.demo.digest import PartitionVerdict
from actors.demo.outcome import DemoOutcome
from actors.demo.spark_part import SparkOutcome, SparkProof
from actors.demo.table import page_line, spark_line, total_line

PROOF = SparkProof(whole=True, partitions=2, records=12, differences=0, took_s=3.04)
SHOWN = SparkOutcome(proof=PROOF, report="/tmp/raymirror-demo-1.html")


def outcome(spark: SparkOutcome = SHOWN, *differences: str) -> DemoOutcome:
    verdicts = tuple(
        PartitionVerdict(topic="clicks", partition=number, records=6, payload_bytes=2**20, difference=difference)
        for number, difference in enumerate(differences or ("", ""))
    )
    return DemoOutcome(verdicts=verdicts, wire_bytes=2**19, copy_s=2.0, proof_s=1.0, spark=spark)


def proven(**more: Any) -> SparkOutcome:
    return msgspec.structs.replace(SHOWN, proof=msgspec.structs.replace(PROOF, **more))


def test_it_is_whole_if_both_agree() -> None:
    assert outcome().is_whole
    assert spark_line(outcome()) == "Spark proved the same 12 records of 2 partitions in 3.0 s: whole, 0 differences"
    assert page_line(outcome()).endswith(": /tmp/raymirror-demo-1.html")
    assert total_line(outcome(), 9.04) == (
        "2 of 2 partitions identical: 12 records, 2.0 MiB (0.5 MiB on the wire), copied in 2.0 s while they arrived"
        " (6 records/s), compared in 1.0 s, 9.0 s in total"
    )


def test_without_spark_the_stock_client_decides() -> None:
    left_out = SparkOutcome(left_out="--no-spark")
    assert outcome(left_out).is_whole
    assert not outcome(left_out, "", "differs").is_whole
    assert spark_line(outcome(left_out)) == "Spark was left out: --no-spark"


@pytest.mark.parametrize(
    ("spark", "trouble"),
    [
        (SparkOutcome(), "it has proven nothing"),
        (SparkOutcome(failure="no place"), "no place"),
        (msgspec.structs.replace(SHOWN, failure="no lag"), "no lag"),
        (proven(whole=False, differences=1), "its proof found 1 difference, and is not whole"),
        (proven(records=11), "it proved 11 records, and the stock client read 12"),
    ],
)
def test_a_spark_that_does_not_agree_fails_the_demo(spark: SparkOutcome, trouble: str) -> None:
    found = outcome(spark)
    assert (found.is_identical, found.is_whole) == (True, False)
    assert spark_line(found) == f"Spark FAILED: {trouble}"


def test_nothing_compared_is_not_whole() -> None:
    nothing = DemoOutcome(verdicts=(), wire_bytes=0, copy_s=1.0, proof_s=1.0, spark=SparkOutcome(left_out="x"))
    assert not nothing.is_whole
