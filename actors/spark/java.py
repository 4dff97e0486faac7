"""Java for Spark: found for a Ray node of our own, and on whichever node a host runs."""

import os
import shutil

from deploy.local.errors import ClusterError
from deploy.local.java import find_spark_java

JAVA_RESOURCE = "raymirror_java"
"""A Ray node that was started with Java on PATH has it; a raylet without Java aborts when Spark asks it for a JVM."""


def put_on_path() -> bool:
    """Have `java` mean one that Spark runs on, in this process and those it starts; say whether there is one."""
    try:
        java = find_spark_java()
    except ClusterError:
        return False
    if shutil.which("java") != str(java):
        os.environ["PATH"] = f"{java.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return True
