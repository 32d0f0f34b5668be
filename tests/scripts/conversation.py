"""Records the conversation: `python -m tests.scripts.conversation` asks a real Apache Kafka.

The answers lie in tests/golden/conversation, one file a chapter; tests/golden/test_conversation.py
asks our broker the same and compares.  `--target HOST:PORT --output FOLDER` records another broker,
which must be fresh: chapters give their topics fixed names.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from protocol.decode_error import DecodeError
from tests.scripts.chapters import (
    cluster,
    configs,
    fetch,
    metadata,
    offsets,
    produce,
    producers,
    sessions,
    topics,
    versions,
)
from tests.scripts.talk import Talk
from tests.support.apache import apache_node
from tests.support.tool_cache import PROJECT
from tests.support.wire import Closed

GOLDEN: Final = PROJECT / "tests" / "golden" / "conversation"

CHAPTERS: Final[Mapping[str, Callable[[Talk], None]]] = {
    "versions": versions.play,
    "metadata": metadata.play,
    "topics": topics.play,
    "configs": configs.play,
    "cluster": cluster.play,
    "produce": produce.play,
    "producers": producers.play,
    "fetch": fetch.play,
    "sessions": sessions.play,
    "offsets": offsets.play,
}

BROKEN_OFF: Final = "the chapter broke off"

Steps = dict[str, Any]


def play_chapter(name: str, address: str, *, to_the_end: bool = True) -> Steps:
    """Ask everything of one chapter; the answers by the names of the steps.

    to_the_end  False: a chapter that cannot go on ends with a step that says why
    """
    talk = Talk(address)
    try:
        CHAPTERS[name](talk)
    except (AssertionError, Closed, DecodeError) as error:
        if to_the_end:
            raise
        talk.steps[BROKEN_OFF] = repr(error)
    finally:
        talk.close()
    return talk.steps


def write(folder: Path, name: str, steps: Steps) -> None:
    """One step a line, so that a change of one answer is a change of one line."""
    lines = [f"{json.dumps(step)}: {json.dumps(answer)}" for step, answer in steps.items()]
    (folder / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read(folder: Path, name: str) -> Steps:
    """What `write` wrote."""
    steps: Steps = json.loads((folder / f"{name}.json").read_text())
    return steps


def record(address: str, folder: Path) -> None:
    """All chapters."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in CHAPTERS:
        steps = play_chapter(name, address)
        write(folder, name, steps)
        print(f"{name}: {len(steps)} steps")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Record the conversation with a broker.")
    parser.add_argument("--target", help="host:port of a fresh broker; default: Apache Kafka")
    parser.add_argument("--output", type=Path, default=GOLDEN)
    options = parser.parse_args(arguments)
    if options.target:
        record(options.target, options.output)
        return
    with tempfile.TemporaryDirectory() as folder, apache_node(Path(folder)) as apache:
        record(apache.address, options.output)


if __name__ == "__main__":
    main()
