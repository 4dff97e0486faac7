"""One line of Spark's pages of causes."""

from engine.jobs.runtime.spark_errors import reason_of

PAGES = """An error occurred while calling o99.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 4 times
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
ModuleNotFoundError: No module named 'aiokafka'
"""


def test_the_innermost_cause_is_named() -> None:
    assert reason_of(RuntimeError(PAGES)) == "ModuleNotFoundError: No module named 'aiokafka'"


def test_without_a_cause_the_first_line_is_given() -> None:
    assert reason_of(RuntimeError("it broke\nhere")) == "it broke"
