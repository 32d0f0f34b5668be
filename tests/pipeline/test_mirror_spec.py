"""Mirror files and the reports of their errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.pipeline.cli import BAD_FILE, main
from odradek.pipeline.spec.mirror import parse
from odradek.pipeline.spec.problems import SpecError

GOOD = """\
[mirror]
name = "east-to-west"
checkpoint = "state"

[source]
alias = "east"
bootstrap_servers = "east:9092"
options = { "security.protocol" = "PLAINTEXT" }

[target]
alias = "west"
bootstrap_servers = "west:9092"

[topics]
pattern = "payments.*"

[groups]
sync_offsets = true
"""


def problems(text: str) -> list[str]:
    """The errors of a file."""
    with pytest.raises(SpecError) as caught:
        parse(text, Path("my.toml"))
    return [str(problem) for problem in caught.value.problems]


def test_valid_file_is_parsed_into_its_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = parse(GOOD, Path("my.toml"))
    assert mirror.source.options == {"security.protocol": "PLAINTEXT"}
    assert (mirror.topics.policy, mirror.mirror.mode) == ("default", "stream")
    assert mirror.groups.sync_offsets
    path = tmp_path / "my.toml"
    path.write_text(GOOD)
    assert main(["mirror", str(path), "--check"]) == 0
    assert capsys.readouterr().out.endswith("my.toml: east to west\n")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "sync_offsets",
            "sync_ofsets",
            "line 18: groups.sync_ofsets: an unknown key; allowed: pattern, exclude, sync_offsets",
        ),
        (
            'alias = "west"',
            'alias = "east"',
            "line 11: target.alias: 'east' is the source's alias; they must differ",
        ),
        (
            "west:9092",
            "east:9092",
            "line 12: target.bootstrap_servers: 'east:9092' is the source's; a cluster is not"
            " mirrored into itself",
        ),
        (
            "payments.*",
            "payments(",
            "line 15: topics.pattern: not a regular expression: missing ), unterminated subpattern"
            " at position 8",
        ),
        ('pattern = "payments.*"', "", "line 14: topics: one of names and pattern must be given"),
        ('checkpoint = "state"\n', "", "line 1: mirror.checkpoint: must be given"),
        (
            'alias = "west"',
            'alias = "w.est"',
            'line 11: target.alias: "w.est" is not allowed: String should match pattern'
            " '^[A-Za-z0-9_-]+$'",
        ),
        ("[groups]", "[group]", None),
        (
            'checkpoint = "state"',
            'checkpoint = "state"\nmode = "batch"',
            "line 4: mirror.mode: \"batch\" is not allowed: Input should be 'stream' or"
            " 'available_now'",
        ),
        (
            'checkpoint = "state"',
            'checkpoint = "state"\nmode = "available_now"\ntrigger = "2 seconds"',
            'line 5: mirror.trigger: a trigger needs mode = "stream"',
        ),
    ],
)
def test_error_is_reported_with_its_line(old: str, new: str, message: str | None) -> None:
    expected = message or (
        "line 17: group: an unknown key; allowed: mirror, source, target, topics, groups"
    )
    assert problems(GOOD.replace(old, new)) == [expected]


def test_check_reports_errors_without_starting_the_mirror(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my.toml"
    path.write_text("[mirror]\nname = 3\n")
    assert main(["mirror", str(path)]) == BAD_FILE
    errors = capsys.readouterr().err
    assert "line 2: mirror.name: 3 is not allowed" in errors
    assert "target: must be given" in errors
