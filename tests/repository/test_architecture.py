"""ARCHITECTURE.md stays one page, and it and the pages of docs/internals name what exists."""

from __future__ import annotations

import ast
import re
from configparser import ConfigParser
from typing import Final

import pytest

from tests.repository.sources import ROOT, product

PAGE: Final = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
INTERNALS: Final = sorted((ROOT / "docs" / "internals").glob("*.md"))
WORDS_MAX: Final = 1_500
SENTENCE_WORDS_MAX: Final = 25
CLASS: Final = re.compile(r"`([A-Z][a-z]\w+)(?:\.(\w+))?`")


def layers(contract: str) -> list[list[str]]:
    """The floors of a contract of import-linter, the highest first."""
    config = ConfigParser()
    config.read(ROOT / ".importlinter")
    lines = config[f"importlinter:contract:{contract}"]["layers"].split("\n")
    return [re.split(r"\s*\|\s*", line) for line in lines if line]


def sentences(text: str) -> list[str]:
    """Those of paragraphs and lists; tables and indented blocks have none."""
    blocks = re.split(r"\n\s*\n|\n(?=[*\d|])", text)
    plain = [
        " ".join(block.split()) for block in blocks if not block.startswith(("    ", "|", "#"))
    ]
    return [sentence for block in plain for sentence in re.split(r"(?<=[a-z`*)][.:;]) ", block)]


def test_architecture_is_one_page() -> None:
    assert len(PAGE.split()) <= WORDS_MAX


def test_sentences_of_the_architecture_are_short() -> None:
    offenders = [text for text in sentences(PAGE) if len(text.split()) > SENTENCE_WORDS_MAX]
    assert not offenders, "\n".join(offenders)


def test_each_decision_names_the_alternative_that_lost() -> None:
    part = PAGE.partition("\n## Decisions\n")[2].partition("\n## ")[0]
    decisions = re.split(r"^### ", part, flags=re.M)[1:]
    assert len(decisions) > 10
    offenders = [text.splitlines()[0] for text in decisions if "\n*Not " not in text]
    assert not offenders


@pytest.mark.parametrize(("first", "contract"), [("odradek", "layers"), ("node", "broker")])
def test_floors_are_in_the_order_of_the_import_contracts(first: str, contract: str) -> None:
    (chain,) = re.findall(rf"^    .*\b{first} > .*$", PAGE, re.M)
    drawn = [re.split(r",\s*", floor.strip()) for floor in chain.split(" > ")]
    floors = {name: index for index, names in enumerate(layers(contract)) for name in names}
    indexes = [floors[name] for names in drawn for name in names if name in floors]
    assert len(indexes) >= 5
    assert indexes == sorted(indexes)


def test_classes_that_the_pages_name_exist() -> None:
    defined = {
        node.name: {name.name for name in node.body if isinstance(name, ast.FunctionDef)}
        for file in product()
        for node in file.nodes
        if isinstance(node, ast.ClassDef)
    }
    named = [
        (match[1], match[2])
        for text in [PAGE, *(page.read_text(encoding="utf-8") for page in INTERNALS)]
        for match in CLASS.finditer(text)
    ]
    assert len(named) > 10
    missing = [
        f"{name}.{method}" if method else name
        for name, method in named
        if name not in defined or (method and method not in defined[name])
    ]
    assert not missing


def test_every_page_of_internals_is_linked_from_the_architecture() -> None:
    assert INTERNALS
    assert [page.name for page in INTERNALS if f"(docs/internals/{page.name})" not in PAGE] == []
