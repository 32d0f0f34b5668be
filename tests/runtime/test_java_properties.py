import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.runtime.java_properties import PropertiesError, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a\t:\tb", {"a": "b"}),
        ("a = = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("  a=b", {"a": "b"}),
        ("# a=b\n! c=d\n\n   \nx=y", {"x": "y"}),
        ("a=b#c", {"a": "b#c"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=PLAINTEXT://:9092", {"a": "PLAINTEXT://:9092"}),
    ],
)
def test_separators_comments_and_line_ends_are_read_as_java_does(
    text: str, expected: dict[str, str]
) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b,\\\n   c", {"a": "b,c"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# not a comment", {"a": "b# not a comment"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("# comment\\\na=b", {"a": "b"}),
        ("\\\n\na=b", {"a": "b"}),
    ],
)
def test_odd_number_of_backslashes_continues_a_line(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\ b=c", {"a b": "c"}),
        ("a\\:b c", {"a:b": "c"}),
        ("a=\\t\\n\\r\\f\\\\\\q", {"a": "\t\n\r\f\\q"}),
        ("a=\\u00e9\\u20AC", {"a": "é€"}),
        ("\\u0061=1", {"a": "1"}),
        ("a=\\ b", {"a": " b"}),
    ],
)
def test_escapes_are_resolved_in_keys_and_values(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_bytes_are_latin_1() -> None:
    assert parse_properties(b"a=\xe9") == {"a": "é"}


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u12g4", "a=\\u"])
def test_short_unicode_escape_is_refused(text: str) -> None:
    with pytest.raises(PropertiesError, match="four hexadecimal digits"):
        parse_properties(text)


def escape(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)


def escaped(properties: dict[str, str]) -> str:
    return "\n".join(f"{escape(key)}={escape(value)}" for key, value in properties.items())


short_text = st.text(st.characters(max_codepoint=0xFFFF), max_size=20)


@given(st.dictionaries(short_text, short_text, max_size=5))
def test_escaped_text_is_read_back(properties: dict[str, str]) -> None:
    assert parse_properties(escaped(properties)) == properties


@given(st.binary(max_size=200))
def test_random_bytes_are_parsed_or_raise_properties_error(text: bytes) -> None:
    try:
        properties = parse_properties(text)
    except PropertiesError:
        assert b"\\u" in text
    else:
        assert parse_properties(escaped(properties)) == properties
