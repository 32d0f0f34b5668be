"""Apache Kafka's tools, started once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.odradek.console_tools import ApacheTools
from tests.odradek.consumer_groups_conversation import LOG4J


@pytest.fixture(scope="session")
def apache_tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheTools]:
    """Apache's tools, which log warnings."""
    with ApacheTools(tmp_path_factory.mktemp("tools")) as tools:
        yield tools


@pytest.fixture(scope="session")
def silent_apache_tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheTools]:
    """Apache's tools, which log nothing but the warnings of the tool for groups."""
    with ApacheTools(tmp_path_factory.mktemp("tools"), log4j=LOG4J) as tools:
        yield tools
