"""config/kubernetes/broker passes the schemas of Kubernetes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.compose.engine import CommandFailed, run
from tests.support.tool_cache import PROJECT

BASE: Final = PROJECT / "config" / "kubernetes" / "broker"
VALIDATOR: Final = "kubernetes-validate>=1.33"
"""A package that contains the schemas."""
VERSIONS: Final = ("1.28", "1.37")
"""The oldest that sets the label of the pod's number, and the newest of the validator."""


@pytest.fixture(scope="module")
def validator(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which Python finds the validator."""
    folder = tmp_path_factory.mktemp("validator")
    run([sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), VALIDATOR])
    return {"PYTHONPATH": str(folder)}


def rendered(folder: Path) -> list[str]:
    """The files that would be applied: those of the base are complete without kustomize, too."""
    if shutil.which("kubectl") is None:
        return [str(path) for path in BASE.iterdir() if path.name != "kustomization.yaml"]
    file = folder / "rendered.yaml"
    file.write_text(run(["kubectl", "kustomize", str(BASE)]))
    return [str(file)]


@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_pass_the_schemas_of_kubernetes(
    validator: dict[str, str], tmp_path: Path, version: str
) -> None:
    command = [sys.executable, "-m", "kubernetes_validate", "--strict", "-k", version]
    printed = run([*command, *rendered(tmp_path)], validator)
    assert printed.count(" passed for resource ") == 5, printed
    wrong = tmp_path / "wrong.yaml"
    text = (BASE / "statefulset.yaml").read_text()
    assert "serviceName: odradek" in text
    wrong.write_text(text.replace("serviceName: odradek", "serviceNam: odradek"))
    with pytest.raises(CommandFailed, match="serviceNam"):
        run([*command, str(wrong)], validator)
