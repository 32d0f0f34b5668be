"""Apache Kafka's own message schemas: the JSON files in its jars.

They are among the jars of Apache Kafka's brokers in `.tools` (`make tools`).  Without these, the
jars come from Maven into `.tools`, once; where `KAFKA_JARS` names a folder, they are taken from
there (file names as in Maven).
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.support import tool_cache

GROUP = "org.apache.kafka"
ARTIFACTS = ("kafka-clients", "kafka-group-coordinator", "kafka-transaction-coordinator")
RELEASES = ("3.9.2", "4.3.0")
VERSION_MAX = 32767


def artifact(group: str, name: str, version: str) -> Path:
    """The jar of a Maven artifact, fetched at the first call."""
    jar = f"{name}-{version}.jar"
    folder = os.environ.get("KAFKA_JARS")
    if folder:
        return Path(folder) / jar
    of_broker = tool_cache.TOOLS / "apache" / f"kafka-{version}" / "libs" / jar
    if of_broker.exists():
        return of_broker

    def make(target: Path) -> None:
        tool_cache.run_tool(
            [
                "mvn",
                "-q",
                "-B",
                "dependency:copy",
                f"-Dartifact={group}:{name}:{version}",
                f"-DoutputDirectory={target}",
            ],
            folder=target,
        )

    mark = tool_cache.fingerprint([group, name, version])
    return tool_cache.build_once(tool_cache.TOOLS / "maven" / f"{name}-{version}", mark, make) / jar


@cache
def schemas(release: str) -> dict[str, dict[str, Any]]:
    """The schemas of a release by name, without those that have no version left."""
    schemas_by_name = {}
    for name in ARTIFACTS:
        with zipfile.ZipFile(artifact(GROUP, name, release)) as jar:
            for member in sorted(jar.namelist()):
                if member.startswith("common/message/") and member.endswith(".json"):
                    schema = parse_schema(jar.read(member).decode())
                    if schema["validVersions"] != "none":
                        schemas_by_name[schema["name"]] = schema
    return schemas_by_name


def parse_schema(text: str) -> dict[str, Any]:
    """JSON with comments to the end of the line, which only stand alone or after punctuation."""
    text = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r'([,{\[]\s*)//[^"\n]*$', r"\1", text, flags=re.MULTILINE)
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def version_range(text: str | None) -> range:
    """The versions that "3+", "0-2", "4" or "none" means."""
    if text is None or text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), VERSION_MAX + 1)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def fields_of(schema: dict[str, Any], version: int) -> list[dict[str, Any]]:
    """The fields of a version; in each, `fields` are those of its structure, `tag` is None or set.

    A structure is looked up among the common ones where the field does not carry its own.
    """
    common = {each["name"]: each["fields"] for each in schema.get("commonStructs", [])}

    def resolve(fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
        resolved = []
        for each in fields:
            if version not in version_range(each.get("versions") or each.get("taggedVersions")):
                continue
            base = each["type"].removeprefix("[]")
            inner = each.get("fields") or common.get(base)
            is_tagged = version in version_range(each.get("taggedVersions"))
            resolved.append(
                each
                | {
                    "tag": int(each["tag"]) if is_tagged else None,
                    "fields": None if inner is None else resolve(inner),
                    "nullable": version in version_range(each.get("nullableVersions")),
                }
            )
        return resolved

    return resolve(schema["fields"])
