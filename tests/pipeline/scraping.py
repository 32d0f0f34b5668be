"""The metrics that a pipeline serves."""

from __future__ import annotations

from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from tests.support.pipeline_job import END_TIMEOUT_S


def scraped(port: int, host: str = "127.0.0.1") -> dict[tuple[str, ...], float]:
    """The served samples: (name without prefix, values of labels) -> value."""
    with urlopen(f"http://{host}:{port}/metrics", timeout=END_TIMEOUT_S) as response:
        families = list(text_string_to_metric_families(response.read().decode()))
    assert all(family.documentation for family in families)
    return {
        (sample.name.removeprefix("odradek_pipeline_"), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }
