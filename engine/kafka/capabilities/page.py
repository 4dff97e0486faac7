"""Writes the table of docs/brokers.md between its marks: `make brokers`. A test compares the page with this."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from engine.kafka.capabilities.table import TABLE, Capability, Side, SpokenRequest, Weight

BEGIN, END = "<!-- written by engine/kafka/capabilities/page.py -->", "<!-- end of what is written -->"
_MEANS = {Weight.NEEDED: "the flow does not start", Weight.GUARANTEE: "a warning", Weight.COMFORT: "only in the table"}


def rows() -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| Ability | For | Requests (versions) | Kafka since | A lack is | Without it | Instead |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for one in TABLE:
        side = "both" if len(one.sides) == len(Side) else next(iter(one.sides)).value
        cells = (one.name, side, _ways(one), one.since, _MEANS[one.weight], one.lost, one.instead)
        yield f"| {' | '.join(cells)} |"


def _ways(row: Capability) -> str:
    return ", or ".join(" + ".join(map(_request, way)) for way in row.ways)


def _request(one: SpokenRequest) -> str:
    return f"{one.name} ({', '.join(map(str, sorted(one.versions)))})"


def written(page: str) -> str:
    """Return the page with the table of today between the marks."""
    table = "\n".join(["", *rows(), ""])
    return re.sub(f"(?<={re.escape(BEGIN)}\n).*?(?={re.escape(END)})", lambda _: f"{table}\n", page, flags=re.DOTALL)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(written(path.read_text()))
