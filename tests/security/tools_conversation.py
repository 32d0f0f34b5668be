"""The command lines by which acls, configs and delegation-tokens are compared with Apache's.

`tools_conversation.txt` has one command line per line.
`python -m tests.security.tools_conversation` records the output of Apache's tools again.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.odradek.console_tools import ApacheTools, Tool
from tests.odradek.topics_tools import as_kafka_exits
from tests.security.secured import Secured, secured_apache

COMMAND_LINES: Final = Path(__file__).with_name("tools_conversation.txt")
RECORDED: Final = Path(__file__).with_name("tools_conversation_3_9_2.txt")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
_TOKEN: Final = re.compile(r"^(\S{22}) {0,9}(\S{88}) ", re.M)
_TOKEN_ID: Final = re.compile(r"(?<=tokenId ): \S{22}")
_LOGGED: Final = re.compile(r"\[\d{4}-\d\d-\d\d ")
_EXCEPTION: Final = re.compile(r"(?:java\.util\.concurrent\.\w+: )?org\.apache\.kafka\.[\w.]+: ")
_ERROR_NAME: Final = re.compile(r"\b[A-Z][A-Z_]{6,}: ")
_ELEMENTS: Final = re.compile(r"(?<=only supports operations )[\w, ]+")


def play(tool: Tool, secured: Secured, lines: Sequence[str]) -> str:
    """Run command lines; returns each with its output and its exit code.

    Kafka prints entries and patterns in the order of hash tables, so that the lines of a command
    are sorted; errors are compared without the names of classes or codes.
    """
    config = secured.file(secured.client("SASL_SSL", "SCRAM-SHA-512"))
    at = ["--bootstrap-server", secured.address("SASL_SSL"), "--command-config", config]
    texts, hmac = [], "HMAC"
    for line in lines:
        lexer = shlex.shlex(line.replace("HMAC", hmac), posix=True)
        lexer.whitespace_split = True
        lexer.escape = lexer.commenters = ""
        name, *arguments = lexer
        result = tool(name, [*at, *arguments], "")
        if match := _TOKEN.search(result.output):
            hmac = match[2]
        output = _TOKEN_ID.sub(": ID", _TIME.sub("TIME", _TOKEN.sub("ID HMAC ", result.output)))
        texts.append(f"$ {line}")
        texts += sorted(f"  {text}" for text in map(plain, shown(output)) if text)
        errors = [text for text in result.errors.splitlines() if not _LOGGED.match(text)]
        texts += [f"  ! {plain(text)}" for text in errors[:1]]
        texts.append(f"  exit code {as_kafka_exits(result.exit_code)}")
    text = "\n".join(texts).replace(hmac, "HMAC")
    return re.sub(r"(?<=args ')\S+ \S+ \S+ \S+ .*'", "...'", text) + "\n"


def shown(output: str) -> list[str]:
    """The lines of an output, without stack traces."""
    return [
        line.strip()
        for line in output.splitlines()
        if not line.startswith(
            ("\tat ", "\t... ", "Caused by: ", "java.", "joptsimple.", "org.apache.")
        )
    ]


def plain(text: str) -> str:
    """A line without the name of an exception or of an error code, lists sorted."""
    text = _ERROR_NAME.sub("", _EXCEPTION.sub("", text))
    return _ELEMENTS.sub(lambda match: ", ".join(sorted(match[0].split(", "))), text)


def main() -> None:
    """Record the output of Apache's tools with Apache's broker."""
    with (
        tempfile.TemporaryDirectory() as name,
        secured_apache(Path(name)) as secured,
        ApacheTools(Path(name)) as tools,
    ):
        secured.add_scram_users()
        RECORDED.write_text(play(tools, secured, COMMAND_LINES.read_text().splitlines()))


if __name__ == "__main__":
    main()
