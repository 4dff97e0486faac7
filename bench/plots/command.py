"""`plot`: draws results of drain, tiny, wan and latency as SVG files."""

import argparse
import json
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.plots.charts import DRAWN, charts, subtitle
from bench.plots.svg import draw


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.add_argument("files", nargs="+", type=Path, help=f"results, as --json wrote them, of {', '.join(DRAWN)}")
    parser.add_argument("--folder", type=Path, help="where the images go (default: beside each file)")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Write an image for each result; return the names of the images. Raises BenchError."""
    written = []
    for file in args.files:
        try:
            found = json.loads(file.read_text())
        except (OSError, ValueError) as error:
            raise BenchError("plot", f"{file} cannot be read: {error}") from None
        image = (args.folder or file.parent) / f"{file.stem}.svg"
        image.write_text(draw(f"bench {found.get('bench')}: {file.stem}", subtitle(found), charts(found)))
        written.append(str(image))
    return {"bench": "plot", "images": written}
