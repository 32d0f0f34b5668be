"""Files and commands that the documents name exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import Final

from odradek.command import SUBCOMMANDS
from tests.repository.sources import ROOT, sources, tracked

LINK: Final = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
CODE_SPAN: Final = re.compile(r"`([^`\n]+)`")
FENCE: Final = re.compile(r"^```.*?^```", re.M | re.S)
PATH: Final = re.compile(r"\.?[\w-][\w.-]*(/[\w.-]+)*/?")
SUFFIXES: Final = {".py", ".md", ".toml", ".sh", ".properties", ".java", ".go", ".js"}
MADE_LATER: Final = ("build/", "data/", "dist/", ".venv/", ".tools/")
NOT_OURS: Final = {
    *("meta.properties", "quorum-state", "partition.metadata"),
    *("kafka-topics.sh", "kafka-consumer-groups.sh", "kafka-storage.sh", "kafka-configs.sh"),
    "my.toml",
}
"""Names of Kafka's files and tools, and of files of a reader."""
COMMAND: Final = re.compile(r"(?:^|[\s`;&|(])(make|odradek|python3? (?:-I )?-m)[ ]+([\w.:/=-]+)")


def named_paths(text: str) -> Iterator[str]:
    """Paths of this repository in code spans."""
    folders = {name.split("/")[0] for name in tracked() if "/" in name}
    for match in CODE_SPAN.finditer(FENCE.sub("", text)):
        path = match[1]
        if not PATH.fullmatch(path) or path.startswith(MADE_LATER) or path in NOT_OURS:
            continue
        if PurePosixPath(path).suffix in SUFFIXES or (
            path.split("/")[0] in folders and "/" in path
        ):
            yield path.rstrip("/")


def exists(document: str, path: str) -> bool:
    """Whether it is a file, folder or module, from the root, the document or any folder on."""
    if (ROOT / path).exists() or (ROOT / document).parent.joinpath(path).exists():
        return True
    ends = (f"/{path}", f"/{path}.py")
    return any(f"/{name}".endswith(ends) or f"/{path}/" in f"/{name}" for name in tracked())


def test_files_named_in_documents_exist() -> None:
    missing = {
        f"{document.name}: {path}"
        for document in sources(".md")
        for path in named_paths(document.text)
        if not exists(document.name, path)
    }
    offenders = sorted(missing)
    assert not offenders, "\n".join(offenders)


def test_relative_links_of_documents_lead_to_files() -> None:
    offenders = [
        f"{document.name}: {link[1]}"
        for document in sources(".md")
        if not document.is_in("docs/")  # `mkdocs build --strict` checks those
        for link in LINK.finditer(document.text)
        if "://" not in link[1]
        if not (ROOT / document.name).parent.joinpath(link[1]).exists()
    ]
    assert not offenders, "\n".join(offenders)


def test_commands_named_in_documents_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w-]+):", makefile, re.M))

    def is_known(tool: str, word: str) -> bool:
        match tool:
            case "make":
                return word in targets
            case "odradek":
                # `odradek is ready` is what `odradek start` prints.
                return word in SUBCOMMANDS or word.startswith("--") or word == "is"
            case _:
                return not word.startswith(("odradek", "tests", "bench")) or bool(find_spec(word))

    offenders = [
        f"{document.name}: {match[1]} {match[2]}"
        for document in sources(".md")
        for code in [*CODE_SPAN.finditer(document.text), *FENCE.finditer(document.text)]
        for match in COMMAND.finditer(code[0])
        if not is_known(match[1], match[2])
    ]
    assert not offenders, "\n".join(offenders)
