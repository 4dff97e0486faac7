"""`raymirror setup s3`: fetches the jars with which Spark reaches a storage in a bucket."""

import argparse
import json

from actors.cli.common import exits
from deploy.local.jars import ensure_s3_jars, say_aloud


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="WHAT", choices=("s3",), help="s3: Spark's jars for raymirror.storage = s3a:")
    parser.add_argument("--json", action="store_true", help="print an object with the folder of the jars")
    parser.epilog = "exit codes: 0 fine, also if the jars were there already; 1 a jar could not be fetched"


def run(args: argparse.Namespace) -> int:
    """Fetch what is missing and print its folder. Raises ClusterError."""
    folder = ensure_s3_jars(say_aloud)
    print(json.dumps({"folder": str(folder)}) if args.json else folder)
    return exits.OK
