"""Reads what the environment of a container refers to: files, commands, mounted settings."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from odradek.bounded_files import read_file, system_error_text
from odradek.container.environment import (
    BITNAMI_CERTIFICATES,
    ContainerConfig,
    container_config,
    inputs,
)
from odradek.container.names import EnvironmentRefused
from odradek.runtime.java_properties import PropertiesError, parse_properties

MOUNTED: Final = ("/mnt/shared/config", "/bitnami/kafka/config")
"""Folders in which users of Apache's and of Bitnami's image put a settings file."""
MOUNTED_CERTIFICATES: Final = ("/bitnami/kafka/config/certs/",)
"""Where users of Bitnami's image put certificates, besides `BITNAMI_CERTIFICATES`."""
DEFAULT: Final = "/etc/odradek/server.properties"
FILE_NAME: Final = "server.properties"
BITNAMI_CONFIG: Final = "/opt/bitnami/kafka/config"
JAAS_FILE_NAME: Final = "kafka_jaas.conf"
"""In the folders of a settings file, and in that of Bitnami's image."""
FILE_BYTES_MAX: Final = 4 << 20
COMMAND_TIMEOUT_S: Final = 60.0
OUTPUT_MAX: Final = 10_000
"""Characters."""


def read_config(environment: Mapping[str, str], default: str = DEFAULT) -> ContainerConfig:
    """The settings of this container.

    default  the file with the settings of a broker alone; there may be none
    raises   EnvironmentRefused, SettingsError
    """
    certificates = next(filter(os.path.isdir, MOUNTED_CERTIFICATES), BITNAMI_CERTIFICATES)
    needed = inputs(environment, certificates)
    texts = {variable: _file_text(variable, path) for variable, path in needed.files.items()}
    texts |= {
        variable: _output(variable, line, environment) for variable, line in needed.commands.items()
    }
    folders = (environment.get("KAFKA_MOUNTED_CONF_DIR"), *MOUNTED)
    paths = (Path(folder, FILE_NAME) for folder in folders if folder)
    mounted = next((path for path in paths if path.is_file()), None)
    config = container_config(
        environment,
        texts,
        mounted=None if mounted is None else read_properties(str(mounted)),
        default=read_properties(default) if os.path.exists(default) else {},
        hostname=os.uname().nodename,
        certificates=certificates,
    )
    jaas = (Path(folder, JAAS_FILE_NAME) for folder in (*folders, BITNAMI_CONFIG) if folder)
    return _with_login_modules(config, next((path for path in jaas if path.is_file()), None))


def _with_login_modules(config: ContainerConfig, path: Path | None) -> ContainerConfig:
    """The settings with the login modules of a mounted JAAS file, where they have none.

    raises  EnvironmentRefused, InvalidValueError
    """
    if path is None:
        return config
    # Imported only where there is such a file.
    from odradek.broker.settings.sasl import JAAS_FILE, with_jaas_file

    def read(name: str) -> str:
        return read_file(name, FILE_BYTES_MAX).decode(errors="replace")

    try:
        settings = with_jaas_file(config.settings, f"-D{JAAS_FILE}={path}", read)
    except OSError as error:
        raise EnvironmentRefused(str(path), JAAS_FILE, system_error_text(error)) from error
    return replace(config, settings=settings)


def read_properties(path: str) -> dict[str, str]:
    """The settings of a file.

    raises  EnvironmentRefused
    """
    try:
        return parse_properties(read_file(path, FILE_BYTES_MAX))
    except (OSError, PropertiesError) as error:
        reason = system_error_text(error) if isinstance(error, OSError) else f"{path}: {error}"
        raise EnvironmentRefused(path, "the settings", reason) from error


def _file_text(variable: str, path: str) -> str:
    try:
        return read_file(path, FILE_BYTES_MAX).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = system_error_text(error) if isinstance(error, OSError) else f"{path} is not UTF-8"
        raise EnvironmentRefused(variable, "a value in a file", reason) from error


def _output(variable: str, line: str, environment: Mapping[str, str]) -> str:
    """What a command of the environment prints, as the image that has such variables runs it."""
    setting = "the output of a command"
    try:
        done = subprocess.run(
            ["bash", "-c", line],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        reason = f"it does not end within {COMMAND_TIMEOUT_S:.0f} s"
        raise EnvironmentRefused(variable, setting, reason) from error
    if done.returncode != 0 or not done.stdout.strip() or len(done.stdout) > OUTPUT_MAX:
        reason = f"it ended with {done.returncode} and {len(done.stdout)} characters of output"
        raise EnvironmentRefused(variable, setting, reason)
    return done.stdout
