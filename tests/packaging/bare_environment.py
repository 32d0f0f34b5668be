"""Virtual environments that hold one wheel and the distributions that its metadata requires.

The required distributions are linked from the environment that runs the tests, so that nothing is
fetched; what the wheel does not require is not there.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

INSTALL_TIMEOUT_S: Final = 120.0
PIP: Final = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
INSTALL: Final = ("install", "--quiet", "--no-index", "--no-deps", "--no-compile")
"""A program compiles what it imports, which is less than all modules, and once for all of them."""


def run_pip(environment: Path, *words: str) -> None:
    """Run the pip of the tests on another environment; raises CalledProcessError."""
    subprocess.run(
        [*PIP, "--python", str(environment / "bin" / "python"), *words],
        check=True,
        timeout=INSTALL_TIMEOUT_S,
    )


def make_environment(folder: Path, wheel: Path) -> Path:
    """Install `wheel` without extras into a new environment; returns its folder."""
    venv.create(folder, with_pip=False, symlinks=True)
    run_pip(folder, *INSTALL, str(wheel))
    link_required(site_packages_of(folder))
    run_pip(folder, "check")
    return folder


def site_packages_of(environment: Path) -> Path:
    """The folder of an environment that has its packages."""
    (site_packages,) = environment.glob("lib/python*/site-packages")
    return site_packages


def link_required(folder: Path, extra: str = "") -> None:
    """Link what the wheel that is installed in a folder requires into the same folder."""
    (installed,) = folder.glob("odradek-*.dist-info")
    for required in _required_distributions(Distribution.at(installed), extra):
        _link(required, folder)


def _required_distributions(root: Distribution, extra: str) -> list[Distribution]:
    """Distributions that `root` requires with an extra, directly or through others."""
    distributions: dict[str, Distribution] = {}
    waiting = [root]
    while waiting:
        for line in waiting.pop().requires or ():
            requirement = Requirement(line)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                continue
            if requirement.name not in distributions:
                distributions[requirement.name] = distribution(requirement.name)
                waiting.append(distributions[requirement.name])
    return list(distributions.values())


def _link(required: Distribution, site_packages: Path) -> None:
    """Link the files and folders of a distribution that stand at the top of site-packages."""
    files = required.files
    assert files is not None, f"{required.name} does not list its files"
    for name in {file.parts[0] for file in files} - {"..", "__pycache__"}:
        (site_packages / name).symlink_to(Path(str(required.locate_file(name))).resolve())
