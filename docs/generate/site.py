"""A hook of MkDocs: pages made of the code, and documents of other folders.

Links of an included document lead to the page made of their target, or to the file in the
repository.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docs.generate import pipelines, protocol, settings, tools

ROOT: Final = Path(__file__).resolve().parents[2]
GENERATED: Final[dict[str, Callable[[], str]]] = {
    "pipeline-keys.md": pipelines.render,
    "protocol.md": protocol.render,
    "settings.md": settings.render,
    "tools.md": tools.render,
}
INCLUDED: Final = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "NOT_DONE.md": "not-done.md",
    "bench/RESULTS.md": "figures.md",
    "storage/FORMAT.md": "format.md",
    "tests/golden/differences.md": "differences.md",
}
"""File of the repository -> page."""
LINK: Final = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by MkDocs with the files of docs/; adds the other pages."""
    assert config.repo_url is not None
    for page, render in GENERATED.items():
        files.append(File.generated(config, page, content=render()))
    for document, page in INCLUDED.items():
        text = (ROOT / document).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=relink(text, document, config.repo_url)))
    return files


def relink(text: str, document: str, repository: str) -> str:
    """The text of `document` with its relative links as they must be on a page."""
    folder = posixpath.dirname(document)

    def replaced(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[1]))
        if target.startswith("docs/"):
            page = target.removeprefix("docs/")
        else:
            page = INCLUDED.get(target, f"{repository}/blob/main/{target}")
        return f"]({page}{link[2] or ''})"

    return LINK.sub(replaced, text)
