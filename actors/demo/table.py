"""Prints the demo's result: one row per partition, one line for all."""

from rich.table import Table
from rich.text import Text

from actors.demo.play import DemoOutcome
from actors.observability.view import MIB


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
    records = sum(verdict.records for verdict in outcome.verdicts)
    payload = sum(verdict.payload_bytes for verdict in outcome.verdicts)
    good = sum(1 for verdict in outcome.verdicts if not verdict.difference)
    return (
        f"{good} of {len(outcome.verdicts)} partitions identical: {records:,} records, {payload / MIB:.1f} MiB"
        f" ({outcome.wire_bytes / MIB:.1f} MiB on the wire), copied in {outcome.copy_s:.1f} s while they arrived"
        f" ({records / outcome.copy_s:,.0f} records/s), compared in {outcome.proof_s:.1f} s, {wall_s:.1f} s in total"
    )
