"""The distinguished name of a certificate as Java shows it.

Source: RFC 2253; X500Principal.getName(), from which Kafka makes a principal's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.x509 import Name, NameAttribute

KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""Types that RFC 2253 names; all others are shown by number, with an encoded value."""
SPECIAL: Final = frozenset(',=+<>#;"\\')


def distinguished_name(name: Name) -> str:
    """The parts from the last to the first, without space between them."""
    return ",".join(
        "+".join(attribute_text(attribute) for attribute in part) for part in reversed(name.rdns)
    )


def attribute_text(attribute: NameAttribute[str | bytes]) -> str:
    """`CN=name`, or `1.2.840.113549.1.9.1=#1603…` for a type without a keyword."""
    identifier = attribute.oid.dotted_string
    keyword = KEYWORDS.get(identifier)
    if keyword is None or isinstance(attribute.value, bytes):
        return f"{keyword or identifier}=#{encoded(attribute).hex()}"
    return f"{keyword}={escaped(attribute.value)}"


def escaped(value: str) -> str:
    """A value with its special characters and outer spaces escaped."""
    text = "".join(
        f"\\{character}" if character in SPECIAL else "\\00" if character == "\0" else character
        for character in value
    )
    inner = text.strip(" ")
    if not inner:
        return "\\ " * len(text)
    leading, trailing = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    return "\\ " * leading + inner + "\\ " * trailing


def encoded(attribute: NameAttribute[str | bytes]) -> bytes:
    """The value in DER: tag, length, content."""
    tag = attribute._type.value
    text = attribute.value
    if isinstance(text, bytes):
        content = text
    else:
        content = text.encode({30: "utf-16-be", 28: "utf-32-be"}.get(tag, "utf-8"))
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    size_bytes = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(size_bytes))) + size_bytes + content
