"""Requests to schema registries, which fail in one line."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from odradek.pipeline.spec.ends import Registry
from odradek.pipeline.transforms.columns import StepInputError

DEFAULTS: Final = {
    "timeout": 10,
    "max.retries": 5,
    "retries.wait.ms": 300,
    "retries.max.wait.ms": 5_000,
}
"""Requests without a response are repeated for some seconds."""
CLIENTS_MAX: Final = 16
NOT_FOUND: Final = frozenset({40401, 40402, 40403})
"""Error codes: no such subject, version, schema.  Another 404 is not from a registry."""

T = TypeVar("T")


class RegistryFailed(StepInputError):
    """A registry cannot be reached, or refuses a request."""


class NoSuchSchema(Exception):
    """A registry does not have a schema."""


class Version(NamedTuple):
    """A version of a subject."""

    schema_id: int
    version: int


class RegistryClient:
    """The schemas of one registry.  What was read once is not read again."""

    def __init__(self, registry: Registry) -> None:
        self._url = registry.url
        options = {**DEFAULTS, **registry.options}
        try:
            self._client = SchemaRegistryClient({"url": registry.url, **options})
        except (AttributeError, TypeError, ValueError) as error:
            raise RegistryFailed(f"schema registry {registry.url}: options: {error}") from error

    def by_id(self, schema_id: int) -> Schema:
        """The schema of an id.

        raises  NoSuchSchema, RegistryFailed
        """
        return self._asked(lambda: self._client.get_schema(schema_id))

    def newest(self, subject: str) -> tuple[int, Schema]:
        """Id and schema of the latest version of a subject.

        raises  NoSuchSchema, RegistryFailed
        """
        version = self._asked(lambda: self._client.get_latest_version(subject))
        assert version.schema is not None, "a version has a schema"
        return _schema_id(version), version.schema

    def version(self, subject: str, version: int) -> Schema:
        """A version of a subject, to which another schema refers.

        raises  NoSuchSchema, RegistryFailed
        """
        schema = self._asked(lambda: self._client.get_version(subject, version)).schema
        assert schema is not None, "a version has a schema"
        return schema

    def register(self, subject: str, schema: Schema) -> int:
        """The id of a schema, which becomes a version of a subject unless it is one.

        raises  RegistryFailed, with the reason when it is incompatible with another version
        """
        return self._asked(lambda: self._client.register_schema(subject, schema))

    def registered(self, subject: str, schema: Schema) -> Version:
        """Where a schema is that is a version of a subject.

        raises  NoSuchSchema, RegistryFailed
        """
        response = self._asked(lambda: self._client.lookup_schema(subject, schema))
        assert response.version is not None, "a response with a schema has its version"
        return Version(_schema_id(response), response.version)

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except SchemaRegistryError as error:
            if error.error_code in NOT_FOUND:
                raise NoSuchSchema(error.error_message) from None
            raise RegistryFailed(f"schema registry {self._url}: {_said(error)}") from None
        except Exception as error:  # noqa: BLE001 - those of the HTTP library
            reason = str(error) or type(error).__name__
            raise RegistryFailed(f"schema registry {self._url}: {reason}") from None


def _said(error: SchemaRegistryError) -> str:
    """A response in one line; registries write lists of faults over several."""
    return f"{' '.join(str(error.error_message).split())} (HTTP {error.http_status_code})"


def _schema_id(version: Any) -> int:
    schema_id = version.schema_id
    assert isinstance(schema_id, int), "a response with a version has the id of its schema"
    return schema_id


@lru_cache(maxsize=CLIENTS_MAX)
def client_of(registry_json: str) -> RegistryClient:
    """The client of a registry in this process; a worker of Spark lasts for many batches.

    registry_json  the model as JSON
    raises         RegistryFailed
    """
    return RegistryClient(Registry.model_validate_json(registry_json))
