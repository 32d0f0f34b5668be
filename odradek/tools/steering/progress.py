"""How far a plan is.  Pure."""

from __future__ import annotations

from typing import NamedTuple

from odradek.tools.cluster_status.render import size_text


class MoveProgress(NamedTuple):
    """A plan at one moment."""

    finished: int
    partitions: int
    copied_bytes: int
    all_bytes: int
    elapsed_s: float
    """Since it was started, or started again."""

    @property
    def bytes_per_s(self) -> float:
        return self.copied_bytes / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """The time until all is copied at the rate so far; None: nothing is copied yet."""
        left = max(0, self.all_bytes - self.copied_bytes)
        if left and not self.bytes_per_s:
            return None
        return left / self.bytes_per_s if left else 0.0

    def line(self) -> str:
        """One line for the terminal."""
        copied = f"{size_text(self.copied_bytes)} of {size_text(self.all_bytes)}"
        text = f"{self.finished} of {self.partitions} partitions done, {copied} copied"
        if self.finished == self.partitions:
            return text
        left = "unknown time" if self.left_s is None else duration_text(self.left_s)
        return f"{text}, {size_text(round(self.bytes_per_s))}/s, {left} left"


def duration_text(seconds: float) -> str:
    """`2 h 5 min`, `5 min 3 s` or `3 s`, rounded up."""
    whole = -int(-seconds // 1)
    minutes, rest = divmod(whole, 60)
    hours, part = divmod(minutes, 60)
    if hours:
        return f"{hours} h {part} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
