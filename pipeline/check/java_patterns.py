"""Finds what Java's `java.util.regex.Pattern` rejects in a regular expression, without Java.

A pattern without a fault here may still be rejected by Java for rare reasons; one with a fault is
rejected always, or means something else than its writer thinks (POSIX classes).
Source: java.util.regex.Pattern of Java 17.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

ESCAPES: Final = "aefnrtdDhHsSvVwWbBAGzZRX"
"""Letters that may follow a backslash without more; others are errors."""
OF_OTHERS: Final = {
    "(?P<": "Java writes (?<name>...)",
    "(?P=": "Java writes \\k<name>",
    "(?P>": "Java has no recursion",
    "(?#": "Java has no comments of this form",
    "(?(": "Java has no conditions",
    "(?|": "Java has no branch reset",
    "(?R": "Java has no recursion",
    "(?&": "Java has no recursion",
    "(?'": "Java writes (?<name>...)",
}
FLAGS: Final = "idmsuxU"
POSIX: Final = re.compile(r"\[:\^?(\w+):\]")
POSIX_NAMES: Final = {
    "alpha": "Alpha",
    "digit": "Digit",
    "alnum": "Alnum",
    "upper": "Upper",
    "lower": "Lower",
    "punct": "Punct",
    "space": "Space",
    "xdigit": "XDigit",
    "cntrl": "Cntrl",
    "graph": "Graph",
    "print": "Print",
    "blank": "Blank",
}
GROUP_NAME: Final = re.compile(r"<([A-Za-z][A-Za-z0-9]*)>")
REPEAT: Final = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
REPEAT_MAX: Final = (1 << 31) - 1


class Fault(Exception):
    """What is wrong with a pattern."""


def pattern_fault(pattern: str) -> str | None:
    """What Java rejects in a pattern, with what Java writes instead; None: nothing is found."""
    try:
        _Reader(pattern).whole()
    except Fault as fault:
        return str(fault)
    except RecursionError:
        return None
    return None


@dataclass(slots=True)
class _Reader:
    text: str
    place: int = 0
    names: list[str] = field(default_factory=list)
    has_comments: bool = False
    """The flag x is set: spaces and comments are skipped, which is not followed here."""

    def whole(self) -> None:
        """Read the pattern."""
        if re.search(r"\(\?[a-zA-Z]*x", self.text):
            # Comments may contain anything.
            return
        self.alternatives()
        if self.place < len(self.text):
            raise Fault(f"a ) at character {self.place + 1} closes nothing; \\) is the character")

    def peek(self, length: int = 1) -> str:
        """The next characters, or fewer at the end."""
        return self.text[self.place : self.place + length]

    def alternatives(self) -> None:
        """Read up to a closing parenthesis or the end."""
        while self.place < len(self.text) and self.peek() != ")":
            if self.peek() in "|^$":
                character = self.peek()
                self.place += 1
                if character != "|" or self.peek() not in ("*", "+", "?"):
                    self.quantifiers(may_follow=character != "|")
                    continue
                self.dangling()
            elif self.peek() in ("*", "+", "?"):
                self.dangling()
            else:
                self.one()
                self.quantifiers(may_follow=True)

    def dangling(self) -> None:
        """Reject a quantifier without anything before it."""
        character = self.peek()
        raise Fault(f"nothing is before the {character} to repeat; \\{character} is the character")

    def quantifiers(self, *, may_follow: bool) -> None:
        """Read what repeats, with ? or + after it."""
        if not may_follow:
            return
        if self.peek() in ("*", "+", "?"):
            self.place += 1
        elif self.peek() == "{":
            found = REPEAT.match(self.text, self.place)
            if found is None:
                raise Fault("a { begins a count like {2,5}; \\{ is the character")
            least, _, most = found.groups()
            if int(least) > REPEAT_MAX or (most and int(most) > REPEAT_MAX):
                raise Fault(f"the count {found[0]} is too large")
            if most and int(most) < int(least):
                raise Fault(f"the count {found[0]} ends before it begins")
            self.place = found.end()
        else:
            return
        if self.peek() in ("?", "+"):
            self.place += 1
        if self.peek() in ("*", "+", "?"):
            self.dangling()

    def one(self) -> None:
        """Read a character, class, group or escape."""
        character = self.peek()
        if character == "(":
            self.group()
        elif character == "[":
            self.character_class()
        elif character == "\\":
            self.escape(in_class=False)
        elif character == "{":
            # Java lets a count repeat nothing; `quantifiers` reads it.
            return
        else:
            self.place += 1

    def group(self) -> None:
        """Read a group."""
        began = self.place
        self.place += 1
        if self.peek() == "?":
            for start, said in OF_OTHERS.items():
                if self.text.startswith(start, began):
                    raise Fault(f"{start} is not known: {said}")
            self.place += 1
            if self.opening():
                return
        self.alternatives()
        if self.peek() != ")":
            raise Fault(f"the ( at character {began + 1} is not closed; \\( is the character")
        self.place += 1

    def opening(self) -> bool:
        """Read what follows `(?`; returns whether the group has ended, as flags alone have."""
        for start in ("<=", "<!", ":", "=", "!", ">"):
            if self.text.startswith(start, self.place):
                self.place += len(start)
                return False
        if self.peek() == "<":
            found = GROUP_NAME.match(self.text, self.place)
            if found is None:
                raise Fault("the name of a group has letters and digits only: (?<name>...)")
            if found[1] in self.names:
                raise Fault(f"two groups are called {found[1]!r}")
            self.names.append(found[1])
            self.place = found.end()
            return False
        flags = re.compile(rf"[{FLAGS}]*(?:-[{FLAGS}]*)?").match(self.text, self.place)
        assert flags is not None, "it matches nothing, too"
        self.place = flags.end()
        if self.peek() not in (":", ")"):
            raise Fault(f"(?{flags[0]}{self.peek()} is not known")
        self.place += 1
        return self.text[self.place - 1] == ")"

    def character_class(self) -> None:
        """Read a class in brackets, which may contain others."""
        began = self.place
        posix = POSIX.match(self.text, began + 1) or POSIX.match(self.text, began)
        if posix is not None and posix[1] in POSIX_NAMES:
            raise Fault(
                f"Java reads {posix[0]} as its letters; write \\p{{{POSIX_NAMES[posix[1]]}}}"
            )
        self.place += 1
        if self.peek() == "^":
            self.place += 1
        is_first = True
        last: str | None = None
        while is_first or self.peek() != "]":
            if self.place >= len(self.text):
                raise Fault(f"the [ at character {began + 1} is not closed; \\[ is the character")
            is_first = False
            character = self.peek()
            if character == "[":
                self.character_class()
                last = None
            elif character == "\\":
                self.escape(in_class=True)
                last = None
            elif self.text.startswith("&&", self.place):
                self.place += 2
                last = None
                is_first = self.peek() != "]"
                if self.peek() == "]":
                    break
            elif (
                character == "-"
                and last is not None
                and self.peek(2)[1:] not in ("]", "[", "", "\\")
            ):
                end = self.peek(2)[1:]
                if end < last:
                    raise Fault(f"the range {last}-{end} ends before it begins")
                self.place += 2
                last = None
            else:
                self.place += 1
                last = character
        self.place += 1

    def escape(self, *, in_class: bool) -> None:
        """Read what a backslash begins."""
        letter = self.peek(2)[1:]
        if not letter:
            raise Fault("a \\ at the end escapes nothing; \\\\ is the character")
        self.place += 2
        if letter == "Q":
            end = self.text.find("\\E", self.place)
            self.place = len(self.text) if end < 0 else end + 2
        elif letter in "pP":
            self.follow(r"\{[^}]+\}|[A-Za-z]", f"\\{letter}{{Name}}")
        elif letter == "x":
            self.follow(r"[0-9A-Fa-f]{2}|\{[0-9A-Fa-f]+\}", "\\x41 or \\x{1F600}")
        elif letter == "u":
            self.follow(r"[0-9A-Fa-f]{4}", "\\u0041")
        elif letter == "0":
            self.follow(r"[0-7]", "\\0101, an octal number")
        elif letter == "c":
            self.follow(r"(?s).", "\\cA")
        elif letter == "N":
            self.follow(r"\{[^}]+\}", "\\N{NAME}")
        elif letter == "k" and not in_class:
            found = self.follow(GROUP_NAME.pattern, "\\k<name>")
            if found[1:-1] not in self.names:
                raise Fault(f"there is no group {found[1:-1]!r} before \\k{found}")
        elif letter.isascii() and letter.isalpha():
            allowed = ESCAPES if not in_class else "aefnrtdDhHsSvVwW"
            if letter not in allowed:
                raise Fault(f"\\{letter} is no escape of Java{_hint(letter)}")
            if self.text.startswith("b{g}", self.place - 1):
                self.place += 3

    def follow(self, wanted: str, example: str) -> str:
        """Read what must follow an escape."""
        found = re.compile(wanted).match(self.text, self.place)
        if found is None:
            raise Fault(f"{self.text[self.place - 2 : self.place]} must be like {example}")
        self.place = found.end()
        return found[0]


def _hint(letter: str) -> str:
    return {"K": "; use a look-behind (?<=...)", "g": "; a group is \\1 or \\k<name>"}.get(
        letter, ""
    )
