"""AsyncAPI 2 and 3 contracts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kernel.ids import slug
from readers.tree import Kind, Tree
from surfaces.contract_examples.message_examples import AsyncApiExamples
from surfaces.contracts import (
    Contract,
    ContractOperation,
    Sources,
    bounded_body,
)
from surfaces.schemas import References, SchemaPlace
from surfaces.trees import (
    NOTHING,
    first_line,
    is_small,
    items,
    members,
    prose,
    text_of,
)


def read_asyncapi(path: str, document: Tree, sources: Sources) -> Contract | None:
    """Return what the document declares; wrong parts are left out."""
    version = text_of(document.get("asyncapi"))
    root, reader = SchemaPlace(document, path), _AsyncApiReader(path, sources)
    if version.startswith("2."):
        found = reader.second_edition(root)
    elif version.startswith("3."):
        found = reader.third_edition(root)
    else:
        detail = f"AsyncAPI {version[:20]} is not supported; use 2 or 3"
        sources.warnings.add("contract_unsupported", detail, path, document)
        return None
    info = document.get("info")
    return Contract(
        path=path,
        protocol=_protocol(document),
        title=first_line(info.get("title") if info else None),
        description=prose(info.get("description") if info else None),
        operations=tuple(found),
    )


def _protocol(document: Tree) -> str:
    """Return the protocol of the first server, `Async` without one."""
    for _, server in members(document.get("servers")):
        if named := text_of(server.get("protocol")):
            return _SHOWN.get(named.lower(), named[:40])
    return "Async"


_SHOWN = {"kafka": "Kafka", "mqtt": "MQTT", "amqp": "AMQP", "nats": "NATS", "ws": "WebSocket",
          "wss": "WebSocket"}  # fmt: skip


class _AsyncApiReader:
    def __init__(self, path: str, sources: Sources) -> None:
        self.path = path
        self.sources = sources
        self.references = References(sources)

    def second_edition(self, document: SchemaPlace) -> Iterator[ContractOperation]:
        for channel, item in self._members(document, "channels"):
            for action in ("publish", "subscribe"):
                operation = item.get(action)
                if operation.tree.kind is Kind.MAP and self.sources.take_operation(self.path):
                    yield self._operation(
                        text_of(operation.tree.get("operationId")) or slug(f"{action} {channel}"),
                        action,
                        channel,
                        operation,
                        self._first_message(operation.get("message")),
                        ("channels", channel, action),
                    )

    def third_edition(self, document: SchemaPlace) -> Iterator[ContractOperation]:
        for name, operation in self._members(document, "operations"):
            action = text_of(operation.tree.get("action"))
            if action not in ("send", "receive"):
                continue
            channel = self.references.resolve(operation.get("channel"))
            named = text_of(operation.get("channel").tree.get("$ref")).rpartition("/")[2]
            message = next(iter(items(operation.tree.get("messages"))), None)
            if message is None:
                message = next((each for _, each in members(channel.tree.get("messages"))), NOTHING)
            if self.sources.take_operation(self.path):
                address = text_of(channel.tree.get("address")) or named or name
                where = SchemaPlace(message, operation.file)
                place = ("operations", name)
                yield self._operation(name, action, address, operation, where, place)

    def _members(self, document: SchemaPlace, key: str) -> Iterator[tuple[str, SchemaPlace]]:
        for name, each in members(document.tree.get(key)):
            place = self.references.resolve(SchemaPlace(each, document.file))
            if place.tree.kind is Kind.MAP:
                yield name, place

    def _first_message(self, message: SchemaPlace) -> SchemaPlace:
        message = self.references.resolve(message)
        several = items(message.tree.get("oneOf"))
        return SchemaPlace(several[0], message.file) if several else message

    def _operation(
        self,
        operation_id: str,
        action: str,
        channel: str,
        operation: SchemaPlace,
        message: SchemaPlace,
        place: tuple[str, ...],
    ) -> ContractOperation:
        tree = operation.tree
        return ContractOperation(
            operation_id=operation_id,
            method=action.upper(),
            name=channel,
            path=channel,
            summary=first_line(tree.get("summary")) or first_line(tree.get("description")),
            body=bounded_body(json.dumps(self._payload(message), ensure_ascii=False)),
            media_type="application/json",
            line=tree.line,
            column=tree.column,
            examples=AsyncApiExamples(self.sources.documents, self.path, place),
        )

    def _payload(self, message: SchemaPlace) -> Any:
        message = self.references.resolve(message)
        for example in items(message.tree.get("examples"))[:20]:
            payload = example.get("payload")
            if payload is not None and is_small(payload):
                return payload.plain()
        if message.tree.get("payload") is None:
            return {}
        payload_place = self.references.resolve(message.get("payload"))
        if payload_place.tree.get("schemaFormat") is not None:
            payload_place = payload_place.get("schema")
        return self.references.sample(payload_place)
