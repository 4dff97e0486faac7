"""The result of the demo: both comparisons of the copy, and whether they agree. Pure."""

import msgspec

from actors.demo.digest import PartitionVerdict
from actors.demo.spark_part import SparkOutcome
from policies.words import counted


class DemoOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the demo. `copy_s` runs from the mirror's start to lag 0, `proof_s` is the stock client's."""

    verdicts: tuple[PartitionVerdict, ...]
    wire_bytes: int
    copy_s: float
    proof_s: float
    spark: SparkOutcome

    @property
    def records(self) -> int:
        """Count the records of the source that the stock client read."""
        return sum(verdict.records for verdict in self.verdicts)

    @property
    def is_identical(self) -> bool:
        """Whether the stock client compared at least one partition, and all are identical."""
        return bool(self.verdicts) and all(not verdict.difference for verdict in self.verdicts)

    @property
    def is_whole(self) -> bool:
        """Whether all partitions are identical, and Spark, unless it was left out, has proven the same records."""
        return self.is_identical and not self.trouble_of_spark

    @property
    def trouble_of_spark(self) -> str:
        """Say what Spark has not shown; empty if it has shown everything, or was left out."""
        if self.spark.left_out:
            return ""
        proof = self.spark.proof
        if self.spark.failure or proof is None:
            return self.spark.failure or "it has proven nothing"
        if not proof.whole:
            return f"its proof found {counted(proof.differences, 'difference')}, and is not whole"
        if proof.records != self.records:
            return f"it proved {proof.records:,} records, and the stock client read {self.records:,}"
        return ""
