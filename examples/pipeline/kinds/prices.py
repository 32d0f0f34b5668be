"""Functions that the examples of the steps udf and python use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame


def with_tax(amount: pd.Series[float]) -> pd.Series[float]:
    """Prices with a tax of 20 %, of many rows at once."""
    return (amount * 1.2).round(2)


def of_shop(orders: DataFrame, shop: str) -> DataFrame:
    """The orders of one shop."""
    return orders.where(orders["shop"] == shop)
