"""A schema registry that is not ours: Apicurio Registry, by Confluent's interface."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from confluent_kafka.schema_registry import SchemaRegistryClient

from tests.support import tool_cache
from tests.support.class_archives import SMALL
from tests.support.ports import free_port
from tests.support.processes import LoggedProcess

VERSION: Final = "3.0.9"
ARTIFACT: Final = (
    "https://repo1.maven.org/maven2/io/apicurio/apicurio-registry-app/"
    f"{VERSION}/apicurio-registry-app-{VERSION}-all.tar.gz"
)
FETCH_TIMEOUT_S: Final = 600.0
READY_TIMEOUT_S: Final = 120.0


def program() -> Path:
    """The folder of its jars, 109 MB when fetched."""

    def make(folder: Path) -> None:
        packed = folder / "packed.tar.gz"
        with urlopen(ARTIFACT, timeout=FETCH_TIMEOUT_S) as response, packed.open("wb") as file:
            shutil.copyfileobj(response, file)
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
        packed.unlink()

    target = tool_cache.TOOLS / "schema-registry"
    return tool_cache.build_once(target, tool_cache.fingerprint([ARTIFACT]), make)


class SchemaRegistry(LoggedProcess):
    """A server without schemas; what it stores is in memory."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        """folder  for its log
        port    None for a free one
        """
        self.port = free_port() if port is None else port
        jars = program()
        command = [
            "java",
            *SMALL,
            "-Xmx256m",
            "-Dquarkus.http.host=127.0.0.1",
            f"-Dquarkus.http.port={self.port}",
            "-jar",
            str(jars / f"apicurio-registry-app-{VERSION}-runner.jar"),
        ]
        super().__init__(command, log=folder / "registry.log", folder=folder)

    @property
    def url(self) -> str:
        """Of Confluent's interface."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def wait_until_ready(self) -> None:
        """Until it responds."""
        self.wait_for_line("RegistryStorage implementation", timeout_s=READY_TIMEOUT_S)
        retries = {"max.retries": 50, "retries.wait.ms": 50, "retries.max.wait.ms": 200}
        SchemaRegistryClient({"url": self.url, **retries}).get_subjects()


@contextmanager
def schema_registry(folder: Path) -> Iterator[SchemaRegistry]:
    """Start a server, and stop it."""
    with SchemaRegistry(folder) as process:
        process.wait_until_ready()
        yield process
        process.stop()
