"""`odradek znodes` and ZooKeeper's own shell print the same lines for one server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from kazoo.client import KazooClient

from odradek.tools.znodes import DATA_WIDTH
from tests.odradek.cluster_tools import our_tool
from tests.odradek.topics_tools import as_kafka_exits
from tests.support.broker_process import odradek_broker
from tests.support.class_archives import SMALL, ZOOKEEPER, options
from tests.support.ports import free_port
from tests.support.zookeeper import JARS, zookeeper

SHELL = "org.apache.zookeeper.ZooKeeperMain"
TIMEOUT_S = 60.0


@pytest.fixture(scope="module", params=["zookeeper", "broker"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a ZooKeeper, or of a broker that serves its embedded tree, with some znodes
    below /kafka, one of them ephemeral."""
    folder = tmp_path_factory.mktemp("server")
    with ExitStack() as stack:
        if request.param == "zookeeper":
            address = stack.enter_context(zookeeper(folder))
        else:
            address = f"127.0.0.1:{free_port()}"
            served = {"odradek.embedded.zookeeper.listener": address}
            stack.enter_context(odradek_broker(folder, overrides=served))
        session = KazooClient(hosts=address)
        session.start(TIMEOUT_S)
        stack.callback(session.close)
        stack.callback(session.stop)
        session.create("/kafka/brokers/ids", b"", makepath=True)
        for broker in (10, 2, 1):
            session.create(f"/kafka/brokers/ids/{broker}", b'{"port": 9092}', ephemeral=True)
        session.create("/kafka/brokers/topics", b'{"version":1,\n "partitions":{}}')
        session.create("/kafka/brokers/topics/orders/partitions/0/state", b"1", makepath=True)
        session.create("/kafka/brokers/topics/bills", ("ä" * 200).encode())
        session.set("/kafka/brokers/topics/bills", ("ö" * 101).encode())
        yield address


def shell_command(address: str, *words: str) -> list[str]:
    """The command line of ZooKeeper's shell."""
    command = ["java", "-Xmx64m", *SMALL, *options(ZOOKEEPER), "-cp", ":".join(JARS)]
    command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    return [*command, SHELL, "-server", f"{address}/kafka", *words]


COMMANDS = (
    "ls /",
    "ls /brokers/ids",
    "ls -s /brokers",
    "ls -R /",
    "ls -R /brokers/topics",
    "ls -R /brokers/ids/1",
    "get /brokers/topics",
    "get -s /brokers/ids/10",
    "get /brokers/topics/orders",
    "get -s /brokers/topics/bills",
    "stat /brokers/ids/2",
    "stat /brokers/topics/bills",
    "ls /nothing",
    "ls -R /nothing",
    "get -s /nothing",
    "stat /brokers/ids/7",
    "get brokers",
)
FAILING_FROM = COMMANDS.index("ls /nothing")
END = "/end-of-the-command"


@pytest.fixture(scope="module")
def printed_by_shell(server: str) -> dict[str, list[str]]:
    """The lines of each command in one session of ZooKeeper's shell, which starts for half a
    second."""
    text = "".join(f"{words}\nget {END}\n" for words in COMMANDS)
    done = subprocess.run(
        shell_command(server),
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    start = done.stdout.rindex("WatchedEvent ")
    lines = [line for line in done.stdout[start:].splitlines()[1:] if line]
    printed: dict[str, list[str]] = {}
    for words in COMMANDS:
        end = lines.index(f"Node does not exist: {END}")
        printed[words], lines = lines[:end], lines[end + 1 :]
    return printed


@pytest.mark.judge
@pytest.mark.parametrize("words", COMMANDS)
def test_command_prints_what_zookeepers_shell_prints(
    server: str, printed_by_shell: dict[str, list[str]], words: str
) -> None:
    result = our_tool("znodes", [f"{server}/kafka", *words.split()])
    lines = [line for line in (result.output + result.errors).splitlines() if line]
    assert lines == printed_by_shell[words]
    assert as_kafka_exits(result.exit_code) == (COMMANDS.index(words) >= FAILING_FROM)


@pytest.mark.judge
def test_tree_is_indented_and_shows_the_data_in_one_line(server: str) -> None:
    result = our_tool("znodes", [f"{server}/kafka/", "tree"])
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "/",
        "  brokers",
        "    ids",
        '      1  {"port": 9092}',
        '      10  {"port": 9092}',
        '      2  {"port": 9092}',
        '    topics  {"version":1, "partitions":{}}',
        f"      bills  {'ö' * (DATA_WIDTH - 3)}...",
        "      orders",
        "        partitions",
        "          0",
        "            state  1",
    ]
    assert our_tool("znodes", [server, "tree", "/kafka/brokers/ids/2"]).output == (
        '/kafka/brokers/ids/2  {"port": 9092}\n'
    )


@pytest.mark.judge
def test_missing_chroot_and_missing_znode_of_a_tree_are_reported(server: str) -> None:
    for arguments, path in (
        ([f"{server}/elsewhere", "ls", "/"], "/"),
        ([server, "tree", "/a"], "/a"),
    ):
        result = our_tool("znodes", arguments)
        assert (result.exit_code, result.output) == (1, "")
        assert result.errors == f"Node does not exist: {path}\n"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["127.0.0.1:1"],
        ["127.0.0.1:1", "set", "/a", "b"],
        ["127.0.0.1:1", "ls"],
        ["127.0.0.1:1", "ls", "-w", "/"],
        ["127.0.0.1:1", "get", "-R", "/"],
        ["127.0.0.1:1", "stat", "/a", "/b"],
        ["127.0.0.1:1", "stat", "a"],
        ["127.0.0.1:1", "stat", "/a/"],
    ],
)
def test_invalid_command_line_exits_with_2(words: list[str]) -> None:
    result = our_tool("znodes", words)
    assert (result.exit_code, result.output) == (2, "")
    assert result.errors


@pytest.mark.parametrize("address", ["host:port", "a..b:2181", "h,a..b/chroot", "x" * 64])
def test_invalid_address_is_reported_in_one_line(address: str) -> None:
    result = our_tool("znodes", [address, "ls", "/"])
    assert (result.exit_code, result.output) == (1, "")
    assert result.errors.startswith(f"'{address}' is not an address of ZooKeeper: ")
    assert result.errors.count("\n") == 1


def test_help_and_version_need_no_server() -> None:
    assert our_tool("znodes", ["--help"]).errors.startswith("usage: odradek znodes HOST:PORT")
    for tool in ("znodes", "zookeeper-shell"):
        assert our_tool(tool, ["--version"]).output == "3.9.2\n"
    assert our_tool("zookeeper-shell", ["--help"]).output.startswith("USAGE: zookeeper-shell.sh")


def whole_output(command: list[str], text: str) -> tuple[int, str]:
    """Exit code and standard output."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    return done.returncode, done.stdout


WATCHER = "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null\n"
"""A thread of the JVM prints it when it is connected, unless the end comes first."""


@pytest.mark.judge
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["ls", "/brokers/ids"], ""),
        (["get", "/nothing"], ""),
        ([], "get /nothing\nls /brokers/ids\n\nget /brokers/ids/1\n"),
    ],
)
def test_shell_of_ours_prints_all_that_zookeepers_prints(
    server: str, words: list[str], text: str
) -> None:
    ours = [sys.executable, "-I", "-m", "odradek", "zookeeper-shell", f"{server}/kafka", *words]
    theirs = shell_command(server, *words)
    printed = [whole_output(command, text) for command in (ours, theirs)]
    assert WATCHER in printed[0][1]
    without = [(code, output.replace(WATCHER, "")) for code, output in printed]
    assert without[0] == without[1]


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["create", "/x"], 127, "create: only ls, get, stat are served; zkCli.sh of ZooKeeper has"),
        (["ls"], 1, "usage: odradek znodes"),
        (["ls", "x"], 1, "Path must start with / character"),
        (["-zk-tls-config-file", "x"], 1, "-zk-tls-config-file is not served: zkCli.sh of "),
    ],
)
def test_command_of_the_shell_that_is_not_served_is_one_line(
    words: list[str], code: int, error: str
) -> None:
    done = our_tool("zookeeper-shell", ["127.0.0.1:1", *words])
    assert (done.exit_code, done.output) == (code, "")
    assert done.errors.startswith(error)
    assert done.errors.count("\n") == 1
