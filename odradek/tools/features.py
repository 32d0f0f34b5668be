"""`odradek features`: the flags, lines and exit codes of `kafka-features.sh` 3.9.

    describe     which levels brokers support, and which are finalized
    upgrade      finalize a level, or a higher one: --feature transaction.version=2
    downgrade    finalize a lower level
    disable      remove a feature: --feature transaction.version

Exit codes: 0 success; 1 failure; 2 an invalid command line.
Differs from Kafka: --metadata and --bootstrap-controller are those of KRaft, and are not there.
Source: Kafka 3.9's FeatureCommand.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from odradek.tools.arguments import APPEND, add_arguments
from odradek.tools.client import Client
from odradek.tools.client_config import open_client
from odradek.tools.errors import ToolError, error_text
from odradek.tools.run import run_tool

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3
FEATURES_VERSION: Final = 3
"""The first version of ApiVersions that lists features."""


def main(arguments: Sequence[str]) -> int:
    return run_tool(_run, arguments)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="odradek features", description="This tool manages feature flags in Kafka."
    )
    add_arguments(parser, "features")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("describe", help="Describes the current active feature flags.")
    for name, what in (
        ("upgrade", "Upgrade one or more feature flags."),
        ("downgrade", "Downgrade one or more feature flags."),
        ("disable", "Disable one or more feature flags: the same as level zero."),
    ):
        command = commands.add_parser(name, help=what)
        add_arguments(command, f"features {name}", {"--feature": {**APPEND, "default": []}})
    return parser


def _run(arguments: Sequence[str]) -> int:
    options = build_parser().parse_args(list(arguments))
    with open_client(options.bootstrap_server, options.command_config) as client:
        if options.command == "describe":
            describe(client)
        else:
            update(client, options)
    return 0


def describe(client: Client) -> None:
    """Print the supported and the finalized levels."""
    request = ApiVersionsRequest(client_software_name="odradek-tools", client_software_version="1")
    response = client.any().request(request, ApiVersionsResponse, FEATURES_VERSION)
    levels = {feature.name: feature.max_version_level for feature in response.finalized_features}
    epoch = response.finalized_features_epoch
    shown = "-" if epoch < 0 else str(epoch)
    for feature in sorted(response.supported_features, key=lambda row: row.name):
        print(
            f"Feature: {feature.name}\tSupportedMinVersion: {feature.min_version}\t"
            f"SupportedMaxVersion: {feature.max_version}\t"
            f"FinalizedVersionLevel: {levels.get(feature.name, 0)}\tEpoch: {shown}"
        )


def update(client: Client, options: argparse.Namespace) -> None:
    """Finalize, lower or remove levels, and print what became of each.

    raises  ToolError when one was refused; ClientError
    """
    operation: str = options.command
    levels = _levels(options.feature, is_disabled=operation == "disable")
    if not levels:
        raise ToolError(f"You must specify at least one feature to {operation}")
    kind = UPGRADE
    if operation != "upgrade":
        kind = UNSAFE_DOWNGRADE if options.unsafe else SAFE_DOWNGRADE
    errors = _request(client, levels, kind, is_dry=options.dry_run)
    for name in sorted(levels):
        error = errors.get(name)
        if operation == "disable":
            if error is None:
                print(f"{name}{' can be ' if options.dry_run else ' was '}disabled.")
                continue
            what = f"disable {name}"
        else:
            if error is None:
                done = " can be " if options.dry_run else " was "
                print(f"{name}{done}{operation}d to {levels[name]}.")
                continue
            what = f"{operation} {name} to {levels[name]}"
        print(f"{'Can not ' if options.dry_run else 'Could not '}{what}. {error}")
    if errors:
        raise ToolError(f"{len(errors)} out of {len(levels)} operation(s) failed.")


def _levels(words: Sequence[str], *, is_disabled: bool) -> dict[str, int]:
    levels: dict[str, int] = {}
    for word in words:
        name, equals, text = word.partition("=")
        level = 0
        if not is_disabled:
            if not equals:
                raise ToolError(f"Can't parse feature=level string {word}: equals sign not found.")
            name, text = name.strip(), text.strip()
            try:
                level = int(text)
            except ValueError:
                level = 2**15
            if not -(2**15) <= level < 2**15:
                raise ToolError(
                    f"Can't parse feature=level string {word}: unable to parse {text} as a short."
                )
        else:
            name = word
        if name in levels:
            raise ToolError(f"Feature {name} was specified more than once.")
        levels[name] = level
    return levels


def _request(
    client: Client, levels: Mapping[str, int], kind: int, *, is_dry: bool
) -> dict[str, str]:
    """The text of the error of each feature that was refused."""
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(
                feature=name,
                max_version_level=level,
                upgrade_type=kind,
                allow_downgrade=kind != UPGRADE,
            )
            for name, level in levels.items()
        ],
        validate_only=is_dry,
    )
    response = client.controller(request, UpdateFeaturesResponse)
    if response.error_code:
        text = response.error_message or error_text(response.error_code)
        return dict.fromkeys(levels, text)
    return {
        result.feature: result.error_message or error_text(result.error_code)
        for result in response.results
        if result.error_code
    }
