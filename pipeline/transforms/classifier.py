"""A small classifier of texts: words hashed to features, and a logistic regression (Spark ML)."""

from __future__ import annotations

from typing import Any, Final

from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.feature import HashingTF, IndexToString, RegexTokenizer, StringIndexer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from odradek.pipeline.transforms.columns import StepInputError, column

FEATURES: Final = 1 << 12
CLASSES_MIN: Final = 2


def train(rows: DataFrame, text_column: str, class_column: str) -> PipelineModel:
    """Train a model on labelled texts; the result depends on the rows only.

    The model reads the column `_text` and adds `_class`.  Rows without a class are left out.

    raises  StepInputError for rows of fewer than two classes
    """
    labelled = rows.select(
        F.coalesce(column(rows, text_column).cast("string"), F.lit("")).alias("_text"),
        column(rows, class_column).cast("string").alias("_label"),
    )
    labelled = labelled.where(F.col("_label").isNotNull())
    if labelled.select("_label").distinct().count() < CLASSES_MIN:
        raise StepInputError(
            f"{class_column!r} has fewer than {CLASSES_MIN} classes: nothing to learn"
        )
    classes = StringIndexer(
        inputCol="_label", outputCol="_known", stringOrderType="alphabetAsc"
    ).fit(labelled)
    stages: list[Any] = [
        RegexTokenizer(inputCol="_text", outputCol="_words", pattern=r"\W+"),
        HashingTF(inputCol="_words", outputCol="_features", numFeatures=FEATURES),
        LogisticRegression(
            featuresCol="_features", labelCol="_known", predictionCol="_index", regParam=0.01
        ),
        IndexToString(inputCol="_index", outputCol="_class", labels=classes.labels),
    ]
    model = Pipeline(stages=stages).fit(classes.transform(labelled))
    assert isinstance(model, PipelineModel), "a pipeline is fitted to a model"
    return model
