"""One line for a failure of Spark."""

from __future__ import annotations

import traceback

from pyspark.errors import PythonException

from odradek.pipeline.mirror.write import WriteFailed
from odradek.pipeline.report.causes import error_line


def test_exception_raised_on_an_executor_gives_its_own_message() -> None:
    """Spark's error has the traceback of the executor as its text."""
    try:
        raise WriteFailed("west.payments-0: Broker: Message size too large")
    except WriteFailed as error:
        text = "".join(traceback.format_exception(error))
    failure = PythonException(f"An exception was thrown from the Python worker.\n{text}")
    assert error_line(failure) == "west.payments-0: Broker: Message size too large"
