"""The site is built without a warning, and its generated pages cover what they are made of."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from docs.generate import protocol, settings, tools
from docs.generate.markdown import table
from docs.generate.site import relink
from odradek.broker.handlers.shared.table import HANDLERS
from odradek.broker.settings import definitions
from odradek.command import SUBCOMMANDS
from odradek.protocol.api_keys import ApiKey
from odradek.tools.shims.scripts import SCRIPTS
from tests.support.tool_cache import PROJECT

BUILD_TIMEOUT_S = 120.0
PAGES = (
    *("architecture", "cluster", "coming-from", "containers", "docker", "operations"),
    *("deviations", "testing", "testing-languages"),
    *("pipelines", "pipeline-keys", "protocol", "settings", "tools"),
)


def test_strict_build_makes_every_page(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=PROJECT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "parts.svg").is_file()
    for page in PAGES:
        assert "<h1" in (tmp_path / page / "index.html").read_text()
    index = json.loads((tmp_path / "search" / "search_index.json").read_text())
    titles = {entry["location"]: entry["title"] for entry in index["docs"]}
    for name in ("auto.create.topics.enable", "retention.ms", "log.retention.ms"):
        assert name in titles[f"settings/#{name}"]
    words = re.split(index["config"]["separator"], "auto.create.topics.enable sasl_plain")
    assert words == ["auto", "create", "topics", "enable", "sasl", "plain"]


def test_settings_page_has_every_setting_that_is_not_internal() -> None:
    page = settings.render()
    for rows in (definitions.BROKER, definitions.DYNAMIC_ONLY, definitions.TOPIC):
        public = {name for name, row in rows.items() if not row.is_internal}
        assert public - settings.documented(page, rows) == set()


def test_tools_page_has_every_script_of_apache_kafka() -> None:
    page = tools.render()
    assert not [row for row in SCRIPTS if f"| `{row.name}.sh` | " not in page]


def test_protocol_page_has_every_api_with_its_versions() -> None:
    page = protocol.render()
    for row in HANDLERS:
        name = protocol.camel_case(ApiKey(row.key))
        assert f"| {row.key} | {name} | {row.min_version}-{row.max_version}" in page
    not_served = page.partition("## Not served")[2]
    assert "| 58 | Envelope |" in not_served
    assert "| Fetch |" not in not_served


def test_tools_page_has_the_help_of_every_subcommand() -> None:
    page = tools.render()
    for name in SUBCOMMANDS:
        text = tools.help_of(name)
        assert len(text.splitlines()) > 3
        assert text in page


def test_tables_escape_bars_and_line_ends() -> None:
    assert table(("a",), [("x|y\nz",)]) == "| a |\n| --- |\n| x\\|y z |\n"


def test_links_of_included_documents_lead_to_pages_or_to_the_repository() -> None:
    text = (
        "[a](../ARCHITECTURE.md#words) [b](x.py) [c](https://d) [e](../docs/operations.md) [f](#g)"
    )
    assert relink(text, "pipeline/README.md", "https://host") == (
        "[a](architecture.md#words) [b](https://host/blob/main/pipeline/x.py) [c](https://d) "
        "[e](operations.md) [f](#g)"
    )


def test_pages_are_made_without_pyspark() -> None:
    code = (
        "import sys\nsys.modules['pyspark'] = None\nfrom docs.generate.site import GENERATED\n"
        "assert all(len(render()) > 1000 for render in GENERATED.values())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
