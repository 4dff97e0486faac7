"""Finds Java for Spark: for a Ray node that raymirror starts, and on the node of a host."""

import os
import shutil

from deploy.local.errors import ClusterError
from deploy.local.java import find_spark_java

JAVA_RESOURCE = "raymirror_java"
"""A Ray node that was started with Java on PATH has it; a raylet without Java aborts when Spark asks it for a JVM."""


def put_on_path() -> bool:
    """Put a Java that Spark supports first on PATH, for this process and its children; return whether one exists."""
    try:
        java = find_spark_java()
    except ClusterError:
        return False
    if shutil.which("java") != str(java):
        os.environ["PATH"] = f"{java.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return True
