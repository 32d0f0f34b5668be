"""The memory of group members: bounded, shared, given back."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.group.member_memory import MemberMemory, PendingMembers

BUDGET = 1_000_000
HOSTS = ("a", "b", "c")

joins = st.lists(
    st.tuples(
        st.sampled_from(HOSTS), st.integers(0, 20), st.integers(1_000, 400_000), st.booleans()
    ),
    max_size=60,
)


@given(joins)
def test_no_host_takes_more_than_half_and_a_small_group_always_enters(
    sizes: list[tuple[str, int, int, bool]],
) -> None:
    memory = MemberMemory()
    groups: dict[tuple[str, int], int] = {}
    hosts = dict.fromkeys(HOSTS, 0)

    def take(host: str, group: tuple[str, int], size: int) -> None:
        memory.charge(host, size)
        groups[group] = groups.get(group, 0) + size
        hosts[host] += size

    for number, (host, index, size, is_joined) in enumerate(sizes):
        group = (host, index)

        def drop(host: str = host, group: tuple[str, int] = group, size: int = size) -> None:
            take(host, group, -size)

        memory.reclaim(host, groups.get(group, 0), size, BUDGET)
        if memory.fits(host, groups.get(group, 0), size, BUDGET):
            take(host, group, size)
            if not is_joined:
                memory.add_unjoined(number, host, size, drop)
        assert memory.used_bytes == sum(hosts.values()) <= BUDGET
        assert max(hosts.values()) <= BUDGET / 2
    memory.reclaim("new", 0, 1_000, BUDGET)
    assert memory.fits("new", 0, 1_000, BUDGET)


def test_unjoined_members_of_the_host_that_has_most_leave_first() -> None:
    memory = MemberMemory()
    left: list[str] = []

    def enter(name: str, host: str, size: int) -> None:
        def drop() -> None:
            memory.charge(host, -size)
            left.append(name)

        memory.charge(host, size)
        memory.add_unjoined(name, host, size, drop)

    enter("first", "small", 200)
    for number in range(4):
        enter(f"large {number}", "large", 200)
    memory.reclaim("new", 0, 250, 1_600)
    assert left == ["large 0"]
    memory.note_joined("large 1")
    memory.reclaim("new", 0, 250, 1_400)
    assert left == ["large 0", "large 2"]


def test_large_member_never_displaces_small_ones() -> None:
    memory = MemberMemory()
    removed: list[str] = []
    memory.charge("a", 400)
    memory.add_unjoined("small", "a", 400, lambda: removed.append("small"))
    memory.reclaim("b", 0, 5_000, 1_000)
    assert not removed
    assert not memory.fits("b", 0, 5_000, 1_000)


def test_oldest_pending_ids_are_dropped_beyond_the_bound() -> None:
    dropped: list[str] = []
    pending = PendingMembers(10_000)
    for member_id in [f"m{number}" for number in range(10)]:
        pending.add(member_id, "g", partial(dropped.append, member_id))
    assert dropped == [f"m{number}" for number in range(6)]
    pending.discard("m8")
    pending.discard("m1")
    assert len(pending) == 3
