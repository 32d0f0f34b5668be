"""Schema registries of a pipeline file."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from odradek.pipeline.spec.field_types import Options, Part


def _addresses(text: str) -> str:
    for address in text.split(","):
        if re.fullmatch(r"https?://[^/?#@\s,]+(/[^?#@\s,]*)?", address.strip()) is None:
            raise ValueError(
                "not an address like http://HOST:8081; several are separated by commas, and an"
                ' account belongs into options: "basic.auth.user.info" = "USER:PASSWORD"'
            )
    return text


class Registry(Part):
    """A schema registry with the interface of Confluent's.

    options  properties of confluent-kafka's SchemaRegistryClient: `basic.auth.user.info`,
             `ssl.ca.location`, `timeout`, ...
    """

    url: Annotated[str, AfterValidator(_addresses)] = Field(examples=["http://registry:8081"])
    """The address of the registry; several are separated by commas."""
    options: Options = {}


def options_fault(registry: Registry) -> str | None:
    """What the client says of the options; None when it takes them."""
    # Imported here: most files have no registry.
    from confluent_kafka.schema_registry import SchemaRegistryClient

    try:
        SchemaRegistryClient({"url": registry.url, **registry.options})
    except AttributeError:
        return "a value has another type than the client takes"
    except (TypeError, ValueError) as error:
        return str(error)
    return None
