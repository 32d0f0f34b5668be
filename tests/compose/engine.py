"""A Docker engine for the length of the tests: one that runs, or one that is started for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.support.processes import LoggedProcess, ProcessFailed
from tests.support.tool_cache import PROJECT, TOOLS, build_once, fingerprint

READY: Final = "API listen on"
READY_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 60.0
PACKAGES_TIMEOUT_S: Final = 600.0
COMMAND_TIMEOUT_S: Final = 900.0
BASE_IMAGE: Final = "odradek-test-base"
RELEASE: Final = "bookworm"
CERTIFICATES: Final = Path("etc/ssl/certs/ca-certificates.crt")
NOT_IN_SLIM_IMAGES: Final = (
    *("dev", "usr/share/doc", "usr/share/info", "usr/share/locale", "usr/share/man"),
    *("var/cache/apt", "var/lib/apt/lists", "var/log"),
)
"""Folders that are empty in Debian's own slim image."""
FORWARDING: Final = Path("/proc/sys/net/ipv4/ip_forward")
BRIDGE: Final = "docker0"


class EngineUnavailable(Exception):
    """This machine cannot run the tests; the message is one line."""


def run(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    timeout_s: float = COMMAND_TIMEOUT_S,
) -> str:
    """What a command prints; raises CommandFailed with its end."""
    done = subprocess.run(
        command,
        cwd=PROJECT,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )
    if done.returncode != 0:
        raise CommandFailed(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class CommandFailed(AssertionError):
    """The message has the command and all that it printed."""

    def last_line(self) -> str:
        return str(self).strip().splitlines()[-1]


@contextmanager
def engine() -> Iterator[dict[str, str]]:
    """The environment for docker, docker-compose and builds.

    An engine that runs is used as it is: base images are then those of the registry, or the one
    that BASE_IMAGE names.  Otherwise one is started, with a base image of Debian's packages, and
    ended; firewall, forwarding and network interfaces are left as they were found.
    raises  EngineUnavailable
    """
    if is_running():
        yield {}
        return
    if os.geteuid() != 0:
        raise EngineUnavailable("no Docker engine runs, and only root can start one")
    try:
        run([str(PROJECT / "tests/support/docker_packages.sh")], timeout_s=PACKAGES_TIMEOUT_S)
        archive = base_archive()
    except (CommandFailed, subprocess.TimeoutExpired, OSError) as error:
        why = error.last_line() if isinstance(error, CommandFailed) else error
        raise EngineUnavailable(f"the packages of an engine cannot be installed: {why}") from error
    with (
        tempfile.TemporaryDirectory(prefix="odradek-engine-", ignore_cleanup_errors=True) as name,
        started(Path(name)) as environment,
    ):
        import_base(archive, environment)
        yield environment


def is_running() -> bool:
    """Whether an engine responds where the environment says."""
    try:
        run(["docker", "version"], timeout_s=30)
    except (OSError, CommandFailed, subprocess.TimeoutExpired):
        return False
    return True


@contextmanager
def started(folder: Path) -> Iterator[dict[str, str]]:
    """An engine whose data and socket are in `folder`."""
    address = f"unix://{folder}/docker.sock"
    with network_as_it_was():
        process = LoggedProcess(
            [
                *("dockerd", "--host", address, "--pidfile", f"{folder}/pid"),
                *("--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"),
            ],
            log=folder / "dockerd.log",
        )
        try:
            try:
                process.wait_for_line(READY, timeout_s=READY_TIMEOUT_S)
            except ProcessFailed as error:
                last = (process.lines() or [str(error)])[-1]
                raise EngineUnavailable(f"dockerd does not start: {last}") from error
            yield {"DOCKER_HOST": address, "BASE_IMAGE": BASE_IMAGE, "PIP_CERT": f"/{CERTIFICATES}"}
        finally:
            # On SIGTERM it ends its containers, too.
            process.stop(timeout_s=STOP_TIMEOUT_S)


@contextmanager
def network_as_it_was() -> Iterator[None]:
    """Firewall and forwarding, which an engine changes, as before; its bridge is removed."""
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=False).stdout
    forwarding = FORWARDING.read_text()
    # An engine that finds forwarding off has the firewall drop what others forward.
    with suppress(OSError):
        FORWARDING.write_text("1")
    had_bridge = Path("/sys/class/net", BRIDGE).exists()
    try:
        yield
    finally:
        with suppress(OSError):
            FORWARDING.write_text(forwarding)
        for table in ("filter", "nat"):
            if f"*{table}" not in rules:
                # A table without rules is not listed.
                rules += f"*{table}\nCOMMIT\n"
        subprocess.run(["iptables-restore"], input=rules, text=True, check=False)
        if not had_bridge and Path("/sys/class/net", BRIDGE).exists():
            subprocess.run(["ip", "link", "delete", BRIDGE], check=False)


def base_archive() -> Path:
    """An archive of what Debian's slim image has, made of Debian's packages once."""
    certificates = Path("/", CERTIFICATES)

    def make(folder: Path) -> None:
        root = folder / "root"
        words = ["--variant=minbase", "--include=ca-certificates", RELEASE, str(root)]
        run(["debootstrap", *words])
        if certificates.exists():
            # Those of a network with a package index of its own.
            shutil.copyfile(certificates, root / CERTIFICATES)
        leave_out = [f"--exclude=./{name}/*" for name in NOT_IN_SLIM_IMAGES]
        run(["tar", "-C", str(root), *leave_out, "-cf", str(folder / "base.tar"), "."])
        shutil.rmtree(root)

    TOOLS.mkdir(exist_ok=True)
    given = [certificates] if certificates.exists() else []
    mark = fingerprint([RELEASE, *NOT_IN_SLIM_IMAGES, *given])
    return build_once(TOOLS / "docker-base", mark, make) / "base.tar"


def import_base(archive: Path, environment: Mapping[str, str]) -> None:
    """Make the base image, and check that containers reach Debian's packages."""
    try:
        run(["docker", "import", str(archive), BASE_IMAGE], environment)
        update = ["apt-get", "update", "-qq", "-o", "APT::Update::Error-Mode=any"]
        run(["docker", "run", "--rm", BASE_IMAGE, *update], environment, timeout_s=300)
    except (CommandFailed, subprocess.TimeoutExpired) as error:
        why = error.last_line() if isinstance(error, CommandFailed) else error
        raise EngineUnavailable(f"containers do not run or reach no packages: {why}") from error
