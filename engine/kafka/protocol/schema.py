"""Turns text schemas of requests and answers into aiokafka's protocol classes.

`name:int32` is a field, `name:int32[]` an array of plain values, `name[...]` an array of structs, `name{...}` a struct.
A flexible version has compact texts and arrays, and ends every struct with a tag section, the last value of its rows.
"""

import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any, ClassVar, Protocol
from uuid import UUID

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    Bytes,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
)


class Uuid(AbstractType[UUID]):
    """Sixteen bytes; topic ids (KIP-516)."""

    @classmethod
    def encode(cls, value: UUID) -> bytes:
        return value.bytes

    @classmethod
    def decode(cls, data: BytesIO) -> UUID:
        return UUID(bytes=data.read(16))


_PLAIN = {"int8": Int8, "int16": Int16, "int32": Int32, "int64": Int64, "bool": Boolean, "bytes": Bytes, "uuid": Uuid}
_CLASSIC: dict[str, Any] = {**_PLAIN, "text": String("utf-8")}
_COMPACT: dict[str, Any] = {**_PLAIN, "text": CompactString("utf-8")}
_WORD = re.compile(r"\w+[\[{]|\w+:\w+(?:\[\])?|[\]}]")


def api(key: int, version: int, asks: str, answers: str, *, flexible: bool = True) -> type[RequestStruct]:
    """Return the class of one version of a request; its `RESPONSE_TYPE` is the class of the answer."""

    class AnswerStruct(Response):
        API_KEY = key
        API_VERSION = version
        SCHEMA = _struct(iter(_WORD.findall(answers)), flexible)

    class AskedStruct(RequestStruct):
        API_KEY = key
        API_VERSION = version
        FLEXIBLE_VERSION = flexible
        RESPONSE_TYPE = AnswerStruct
        SCHEMA = _struct(iter(_WORD.findall(asks)), flexible)

    return AskedStruct


def _struct(words: Iterator[str], flexible: bool) -> Schema:
    """Read fields up to the end of their struct."""
    array, types = (CompactArray, _COMPACT) if flexible else (Array, _CLASSIC)
    fields: list[tuple[str, Any]] = []
    for word in words:
        if word in "]}":
            break
        if word[-1] in "[{":
            inner = _struct(words, flexible)
            fields.append((word[:-1], array(inner) if word[-1] == "[" else inner))
        else:
            name, kind = word.split(":")
            plain = types[kind.removesuffix("[]")]
            fields.append((name, array(plain) if kind.endswith("[]") else plain))
    return Schema(*fields, *([("tags", TaggedFields)] if flexible else []))


class Speaker(Protocol):
    """A connection to a broker whose versions are known."""

    def supports(self, api_key: int, version: int) -> bool:
        """Whether the broker speaks this version of this request."""


class Question(Request[RequestStruct]):
    """A request in one or several versions, the newest last; `fields` are common to all versions, without tags."""

    API_KEY: ClassVar[int] = -1

    def __init_subclass__(cls, *, versions: tuple[type[RequestStruct], ...]) -> None:
        cls.API_KEY = versions[0].API_KEY
        super().__init_subclass__()
        cls._CLASSES = versions

    def __init__(self, *fields: Any) -> None:
        self.fields = fields

    @classmethod
    def spoken_by(cls, connection: Speaker) -> bool:
        """Whether the broker speaks one of the versions."""
        return any(connection.supports(cls.API_KEY, one.API_VERSION) for one in cls._CLASSES)

    def build(self, request_struct_class: type[RequestStruct]) -> RequestStruct:
        """Fill in one version."""
        tags: list[Any] = [{}] if request_struct_class.FLEXIBLE_VERSION else []
        return request_struct_class(*self.fields, *tags)
