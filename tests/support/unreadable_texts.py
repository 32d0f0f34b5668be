"""Texts on which parsers raise more than they promise, or accept what fails later."""

from __future__ import annotations

from typing import Final

DEEP: Final = 30_000
DIGITS: Final = 5_000

JSON_VALUES: Final = {
    "deep arrays": "[" * DEEP + "]" * DEEP,
    "deep objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "deep, below the limit of the stack": "[" * 400 + "]" * 400,
    "open arrays": "[" * DEEP,
    "integer of many digits": "9" * DIGITS,
    "integer of 4,000 digits": "9" * 4_000,
    "fraction of many digits": "0." + "9" * DIGITS,
    "infinite": "1e400",
    "infinity": "-Infinity",
    "not a number": "NaN",
    "lone surrogate": r'"\ud800"',
    "surrogates in the wrong order": r'"\udc00\ud800"',
    "raw NUL": '"\0"',
}
"""What a JSON document must not contain, by name; each is refused wherever it stands."""

ODD_VALUES: Final = {
    "NUL": r'"\u0000"',
    "text of many digits": f'"{"9" * DIGITS}"',
    "long text": '"' + "a" * 100_000 + '"',
    "number of 65 bits": str(1 << 64),
    "number of 40 bits": str(1 << 40),
    "negative": "-7",
    "true": "true",
    "null": "null",
    "text": '"x"',
    "path": '"../.."',
    "array": "[]",
    "object": "{}",
    "fraction": "1.5",
}
"""Well-formed JSON that has the wrong type or size nearly everywhere."""

BYTES: Final = {
    "nothing": b"",
    "NULs": b"\0" * 100,
    "not UTF-8": b"\xff\xfe\xfa{}",
    "encoded surrogate": b'{"a":"\xed\xa0\x80"}',
    "UTF-16": '{"version":1}'.encode("utf-16"),
    "many digits": b"9" * DIGITS,
    "other digits": "\u0661\u0662".encode(),
    "underscore": b"1_0",
}
"""Documents of no format."""


def json_documents() -> dict[str, bytes]:
    """Whole documents: each value alone, in an array, and in a member."""
    documents = dict(BYTES)
    for name, value in {**JSON_VALUES, **ODD_VALUES}.items():
        documents[f"{name}, alone"] = value.encode()
        documents[f"{name}, in an array"] = f"[{value}]".encode()
        documents[f"{name}, in a member"] = f'{{"version":1,"x":{value}}}'.encode()
    return documents


def variants(valid: bytes) -> dict[str, bytes]:
    """A valid object with each unreadable or odd value, in a new member and in place of each
    member's value."""
    import json

    members: dict[str, object] = json.loads(valid)
    documents = {}
    for name, value in {**JSON_VALUES, **ODD_VALUES}.items():
        for key in [*members, "new"]:
            texts = {other: json.dumps(content) for other, content in members.items()}
            texts[key] = value
            body = ",".join(f"{json.dumps(other)}:{text}" for other, text in texts.items())
            documents[f"{name} as {key}"] = f"{{{body}}}".encode()
    return documents
