"""Avro: a record per message, by one schema or by schemas of a registry."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.columns import rows
from engine.errors import GraphError
from engine.installation.distribution import install_hint
from engine.network import AvroDecoder, DecodeError
from operators.formats.format import Decoder, Format, Rejected, in_places


@dataclass(frozen=True)
class Avro(Format):
    """A message is one record of Avro, and becomes a dict or, with `columns=True`, a row.

    With a registry, messages are as Confluent's serializers write them: a zero, four bytes of the
    id of the writer's schema, the record. The registry is its URL, a dict of the settings of
    `confluent_kafka.schema_registry.SchemaRegistryClient`, or a function that makes such a client.
    It is asked once for each id. The schema is then that of the reader, which Avro resolves the
    writer's to; columns need one. Without a registry, a message is the record alone, and the schema
    is the writer's. A schema is a dict, or a text of JSON.
    """

    schema: Mapping[str, Any] | str | None = None
    registry: str | Mapping[str, Any] | Callable[[], Any] | None = None
    columns: bool = False

    def __post_init__(self) -> None:
        if self.schema is None and (self.registry is None or self.columns):
            raise GraphError(
                f"Avro got no schema{' for its columns' if self.registry else ' and no registry'}",
                hint="Avro(schema) reads records of this schema alone; Avro(registry=URL) makes "
                "dicts of messages by their own schemas, Avro(schema, registry=URL, columns=True) "
                "columns of one",
            )
        try:
            AvroDecoder(self._text, None if self.registry is None else _no_schema)
        except ValueError as error:
            raise GraphError(f"Avro got a schema that it cannot read by: {error}") from None
        if self.registry is not None:
            _registry_package()

    @property
    def _text(self) -> str | None:
        schema = self.schema
        return schema if schema is None or isinstance(schema, str) else json.dumps(schema)

    @property
    def emits_columns(self) -> bool:
        """Whether columns were asked for."""
        return self.columns

    def decoder(self) -> Decoder:
        """Rejects what is not a record of its schema, and ids that the registry does not have."""
        fetch = None if self.registry is None else _fetching(self.registry)
        decode = AvroDecoder(self._text, fetch).decode

        def columns(values: list[bytes | None]) -> tuple[Any, Rejected]:
            (batch,), rejected = decode(values)
            return batch, in_places(rejected)

        def records(values: list[bytes | None]) -> tuple[list[Any], Rejected]:
            places = [place for place, value in enumerate(values) if value is not None]
            batches, rejected = decode([values[place] for place in places])
            found = [(places[place], reason) for place, reason in rejected]
            decoded = [row for batch in batches for row in rows(batch)]
            if len(places) == len(values):
                return decoded, in_places(found)
            left_out = {place for place, _ in found}
            each = iter(decoded)
            return [
                None if value is None else next(each)
                for place, value in enumerate(values)
                if place not in left_out
            ], in_places(found)

        return columns if self.columns else records


def _fetching(registry: Any) -> Callable[[int], str]:
    """A function that asks the registry for the schema of an id."""
    package = _registry_package()
    if callable(registry):
        client = registry()
    else:
        settings = {"url": registry} if isinstance(registry, str) else dict(registry)
        client = package.SchemaRegistryClient.new_client(settings)

    def fetch(number: int) -> str:
        try:
            schema = client.get_schema(number)
        except package.SchemaRegistryError as error:
            if error.http_status_code != _NOT_FOUND:
                raise
            raise DecodeError(f"the registry has no schema of the id {number}") from None
        if schema.schema_type != "AVRO" or schema.references:
            found = "references to others" if schema.references else f"type {schema.schema_type}"
            raise DecodeError(f"schema {number} has {found}, expected Avro in one piece")
        text: str = schema.schema_str
        return text

    return fetch


def _registry_package() -> Any:
    try:
        from confluent_kafka import schema_registry
    except ImportError as error:
        raise GraphError(
            f"Avro(registry=…) needs the client of a schema registry: {error}",
            hint=install_hint("avro"),
        ) from None
    return schema_registry


def _no_schema(number: int) -> str:
    raise DecodeError(f"no schema of the id {number}")


_NOT_FOUND = 404
