"""Java's regular expressions, as far as command lines use what Python writes differently."""

from __future__ import annotations

import re
from typing import Final

_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
_CLASSES: Final = {
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Upper": "A-Z",
    "Lower": "a-z",
}
_POSIX: Final = re.compile(rf"\\p\{{({'|'.join(_CLASSES)})\}}")


def compile_java_pattern(text: str) -> re.Pattern[str]:
    """Compile a Java pattern with `\\Q...\\E` and, outside of brackets, `\\p{Alpha}` and the like.

    raises  re.error for an invalid pattern
    """
    text = _QUOTED.sub(lambda quoted: re.escape(quoted[1]), text)
    text = _POSIX.sub(lambda match: f"[{_CLASSES[match[1]]}]", text)
    try:
        return re.compile(text, re.ASCII)
    except OverflowError as error:
        raise re.error(str(error)) from error
