from tests.odradek.comparison import comparable

PLAYED = """$ list
  b 1
  a 2
  exit code 0
$ move
  {"version":1,"partitions":[{"topic":"b"},{"topic":"a"}]}
  moved b-0, a-0
  exit code 1
"""


def test_order_of_lines_and_of_lists_is_not_compared() -> None:
    swapped = PLAYED.replace("  b 1\n  a 2", "  a 2\n  b 1").replace("b-0, a-0", "a-0, b-0")
    swapped = swapped.replace('{"topic":"b"},{"topic":"a"}', '{"topic":"a"},{"topic":"b"}')
    assert swapped != PLAYED
    assert comparable(swapped) == comparable(PLAYED)


def test_columns_values_exit_codes_and_commands_are_compared() -> None:
    for old, new in (("b 1", "1 b"), ("a 2", "a 3"), ("code 1", "code 0"), ("$ list", "$ lists")):
        assert comparable(PLAYED.replace(old, new)) != comparable(PLAYED)
    assert comparable(PLAYED.replace("b-0", "c-0")) != comparable(PLAYED)
    assert comparable(PLAYED.replace("version", "Version")) != comparable(PLAYED)
