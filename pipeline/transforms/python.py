"""Steps that call functions of the user's modules."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

from odradek.pipeline.spec.steps import Python, Udf
from odradek.pipeline.transforms.columns import StepInputError, column


def add_column(rows: DataFrame, step: Udf, folder: Path) -> DataFrame:
    """Rows with the column that a function computes.

    raises  StepInputError
    """
    function = function_named(step.function, folder)
    inputs = [column(rows, name) for name in step.inputs]
    if step.pandas:
        of_series: Any = pandas_udf
        computed = of_series(_series(function), step.returns)
    else:
        computed = F.udf(function, step.returns)
    return rows.withColumn(step.column, computed(*inputs))


def _series(function: Callable[..., Any]) -> Callable[..., Any]:
    """With the annotations by which Spark knows the kind of function."""
    import pandas

    def call(*series: pandas.Series) -> pandas.Series:
        return function(*series)

    call.__annotations__ = {"series": pandas.Series, "return": pandas.Series}
    return call


def transformed(rows: DataFrame, step: Python, folder: Path) -> DataFrame:
    """The DataFrame that a function makes of another.

    raises  StepInputError
    """
    function = function_named(step.step, folder)
    try:
        result = function(rows, **step.options)
    except (PySparkException, Py4JError):
        raise
    except Exception as error:  # the function is the user's
        raise StepInputError(f"{step.step}: {type(error).__name__}: {error}") from error
    if not isinstance(result, DataFrame):
        kind = type(result).__name__
        raise StepInputError(f"{step.step} has returned {kind}, and not a DataFrame")
    return result


def function_named(reference: str, folder: Path) -> Callable[..., Any]:
    """The function `module:name`; modules in the folder come first, and are sent to the workers.

    raises  StepInputError
    """
    name, _, attribute = reference.partition(":")
    place = str(folder)
    sys.path.insert(0, place)
    try:
        module = importlib.import_module(name)
    except Exception as error:  # the module is the user's
        raise StepInputError(
            f"{name} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path.remove(place)
    beside = folder.joinpath(*name.split(".")).with_suffix(".py")
    file = getattr(module, "__file__", None)
    if beside.exists() and (file is None or not beside.samefile(file)):
        raise StepInputError(f"another module {name} is imported already: {file or 'built in'}")
    _send(folder)
    function: Callable[..., Any] | None = getattr(module, attribute, None)
    if function is None or not callable(function):
        attributes = ", ".join(
            attribute for attribute in vars(module) if not attribute.startswith("_")
        )
        raise StepInputError(f"{name} has no function {attribute}; it has: {attributes}")
    return function


def _send(folder: Path) -> None:
    """Have the modules of a folder pickled by value: workers need not find them."""
    register: Any = cloudpickle.register_pickle_by_value
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file is None or "site-packages" in file:
            continue
        if Path(file).is_relative_to(folder) and module.__name__ != "__main__":
            register(module)
