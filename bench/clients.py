"""The load clients in C: compiled when needed, run, their JSON read."""

from __future__ import annotations

import json
import subprocess
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench import cores
from bench.places import BINARIES, PROJECT

SOURCES = PROJECT / "bench" / "client"
HEADER = Path("/usr/include/librdkafka/rdkafka.h")


class ClientError(Exception):
    """A client could not be built, or failed; the text holds what it said."""


def librdkafka() -> Path:
    """The library in the wheel of confluent-kafka; linked by path."""
    spec = find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        raise ClientError("confluent-kafka is not installed (pip install -e '.[bench]')")
    folder = Path(spec.origin).parent.parent / "confluent_kafka.libs"
    libraries = sorted(folder.glob("librdkafka-*.so*"))
    if not libraries:
        raise ClientError(f"no librdkafka in {folder}")
    return libraries[0]


def librdkafka_version() -> str:
    """The version of the library in the wheel."""
    import confluent_kafka

    return f"{confluent_kafka.libversion()[0]} (wheel {metadata.version('confluent-kafka')})"


def binary(name: str) -> Path:
    """The compiled client; built again when its source or the library is newer."""
    target, library = BINARIES / name, librdkafka()
    sources = [SOURCES / f"{name}.c", SOURCES / "options.h", library]
    newest = max(path.stat().st_mtime for path in sources)
    if target.exists() and target.stat().st_mtime > newest:
        return target
    if not HEADER.exists():
        raise ClientError("librdkafka's headers are missing (apt-get install librdkafka-dev)")
    BINARIES.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(target), str(sources[0])]
    command += [str(library), f"-Wl,-rpath,{library.parent}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ClientError(done.stderr)
    return target


def run(name: str, *words: str, **options: object) -> dict[str, Any]:
    """Runs a client to its end; `settings` go to librdkafka, other options to the client."""
    settings = options.pop("settings", {})
    assert isinstance(settings, dict)
    command = [*cores.client_prefix(), str(binary(name)), *words]
    command += [f"{key}={value}" for key, value in options.items()]
    command += [f"set:{key}={value}" for key, value in settings.items()]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode or not done.stdout.startswith("{"):
        raise ClientError(f"{' '.join(command)}: {done.returncode}\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result
