"""Log directories without space: when they count as full, and how often that can change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.replication.full_directories import (
    GRACE_MS,
    LOOK_MS,
    REMEMBERED_MS,
    REST_MAX_MS,
    REST_MS,
    FullDirectories,
)

PATH = "/data"
FOLDER = "/data/orders-0"
TICK_MS = 1_000


def look(full: FullDirectories, now_ms: int, *, has_space: bool) -> bool:
    """Do the looks that are due; whether the directory was among them."""
    due = full.begin_looks(now_ms)
    assert full.begin_looks(now_ms) == [], "one look at a time"
    for path in due:
        full.on_looked(path, has_space=has_space, now_ms=now_ms)
    return due == [PATH]


def test_directory_is_full_when_there_is_no_space_after_the_grace() -> None:
    full = FullDirectories()
    full.note_refused(FOLDER, 0)
    full.note_refused(FOLDER, GRACE_MS - 1)
    assert not look(full, GRACE_MS - 1, has_space=False)
    assert not full.is_full(PATH)
    assert look(full, GRACE_MS, has_space=False)
    assert full.is_full(PATH)
    assert full.count == 1
    assert not full.is_full("/other")


def test_directory_that_has_space_again_within_the_grace_is_not_full() -> None:
    full = FullDirectories()
    full.note_refused(FOLDER, 0)
    assert look(full, GRACE_MS, has_space=True)
    assert full.count == 0
    assert not look(full, GRACE_MS + LOOK_MS, has_space=False), "nothing was refused since"


def test_full_directory_is_looked_at_after_its_rest_until_there_is_space() -> None:
    full = FullDirectories()
    full.note_refused(FOLDER, 0)
    look(full, GRACE_MS, has_space=False)
    now_ms = GRACE_MS + REST_MS
    assert not look(full, now_ms - 1, has_space=True)
    assert look(full, now_ms, has_space=False)
    assert full.is_full(PATH)
    assert not look(full, now_ms + LOOK_MS - 1, has_space=True)
    assert look(full, now_ms + LOOK_MS, has_space=True)
    assert full.count == 0


@given(st.lists(st.booleans(), max_size=2_000))
def test_directory_that_fills_up_again_and_again_changes_ever_less_often(
    spaces: list[bool],
) -> None:
    """Appends are refused all the time, whatever the looks find."""
    full = FullDirectories()
    filled: list[int] = []
    left: list[int] = []
    for number, has_space in enumerate(spaces):
        now_ms = number * TICK_MS
        was_full = full.is_full(PATH)
        full.note_refused(FOLDER, now_ms)
        look(full, now_ms, has_space=has_space)
        if full.is_full(PATH) is not was_full:
            (left if was_full else filled).append(now_ms)
        assert full.count == full.is_full(PATH)
    rest_ms = REST_MS
    for number, begin_ms in enumerate(filled[: len(left)]):
        if number and begin_ms - left[number - 1] < REMEMBERED_MS:
            rest_ms = min(2 * rest_ms, REST_MAX_MS)
        elif number:
            rest_ms = REST_MS
        assert left[number] - begin_ms >= rest_ms
