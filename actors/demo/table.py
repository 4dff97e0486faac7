"""Words the demo's result for people: one row per partition, one line for all, and what Spark adds."""

from rich.table import Table
from rich.text import Text

from actors.demo.outcome import DemoOutcome
from actors.observability.sentences import MIB
from policies.words import counted


def verdict_table(outcome: DemoOutcome) -> Table:
    table = Table(title="every record compared: order, key, value, headers, timestamp")
    table.add_column("partition")
    table.add_column("records", justify="right")
    table.add_column("MiB", justify="right")
    table.add_column("source and target")
    for verdict in outcome.verdicts:
        table.add_row(
            f"{verdict.topic}-{verdict.partition}",
            f"{verdict.records:,}",
            f"{verdict.payload_bytes / MIB:.1f}",
            Text(verdict.difference or "identical", style="bold red" if verdict.difference else "green"),
        )
    return table


def total_line(outcome: DemoOutcome, wall_s: float) -> str:
    """Sum up the result. The rate is that of the whole copy, which waited for the load most of the time."""
    payload = sum(verdict.payload_bytes for verdict in outcome.verdicts)
    good = sum(1 for verdict in outcome.verdicts if not verdict.difference)
    return (
        f"{good} of {len(outcome.verdicts)} partitions identical: {outcome.records:,} records, {payload / MIB:.1f} MiB"
        f" ({outcome.wire_bytes / MIB:.1f} MiB on the wire), copied in {outcome.copy_s:.1f} s while they arrived"
        f" ({outcome.records / outcome.copy_s:,.0f} records/s), compared in {outcome.proof_s:.1f} s,"
        f" {wall_s:.1f} s in total"
    )


def spark_line(outcome: DemoOutcome) -> str:
    """Say what Spark has proven, what it has not shown, or why it was left out."""
    if outcome.spark.left_out:
        return f"Spark was left out: {outcome.spark.left_out}"
    proof = outcome.spark.proof
    if outcome.trouble_of_spark or proof is None:
        return f"Spark FAILED: {outcome.trouble_of_spark}"
    return (
        f"Spark proved the same {counted(proof.records, 'record')} of {counted(proof.partitions, 'partition')}"
        f" in {proof.took_s:.1f} s: whole, {counted(proof.differences, 'difference')}"
    )


def page_line(outcome: DemoOutcome) -> str:
    """Say where the report is."""
    return f"lag, latency and throughput of these minutes, as a page: {outcome.spark.report}"
