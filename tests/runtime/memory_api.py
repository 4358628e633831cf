"""A small API server in memory, for tests in fake time.

It keeps objects as JSON, counts versions, checks preconditions, merges server-side applies by who states what, and does
as told before it answers: fail, hang, or lose the answer after the write.
"""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from gpustack_op.api.meta import KubeObject, Resource
from gpustack_op.runtime.errors import AlreadyExists, Conflict, Invalid, NotFound

T = TypeVar("T", bound=KubeObject)
Json = dict[str, Any]


class Hang:
    """The request is never answered, and nothing is stored."""


class AnswerLost:
    """The write is stored, and the connection breaks instead of an answer."""


@dataclass(frozen=True)
class Slow:
    """The request takes so many seconds."""

    seconds: float


HANG, ANSWER_LOST = Hang(), AnswerLost()


class MemoryApi:
    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.calls: list[tuple[str, str]] = []
        self.bodies: list[Any] = []
        self._states: dict[tuple[tuple[str, str, str], str], Json] = {}
        self._troubles: dict[str, deque[Any]] = {}
        self._version = 0

    # --- for tests

    def trouble(self, verb: str, *troubles: Any) -> None:
        """What befalls the next requests of this verb: an exception, HANG, ANSWER_LOST, Slow, or None for nothing."""
        self._troubles.setdefault(verb, deque()).extend(troubles)

    def no_trouble(self) -> None:
        self._troubles.clear()

    def put(self, resource: Resource[Any], body: Json) -> Json:
        """Store as somebody else."""
        return self._store(self._key(resource, body["metadata"]), copy.deepcopy(body))

    def read(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        return msgspec.convert(self.objects[(resource.plural, namespace, name)], resource.model)

    @property
    def writes(self) -> list[str]:
        return [verb for verb, _ in self.calls if verb != "get"]

    # --- the part of a client that tests need

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        trouble = await self._begin("get", name)
        stored = self._found((resource.plural, namespace, name))
        return self._answer(resource, stored, trouble)

    async def create(
        self, resource: Resource[T], body: Mapping[str, Any], *, namespace: str = "", field_manager: str = ""
    ) -> T:
        trouble = await self._begin("create", body["metadata"]["name"], body)
        key = (resource.plural, namespace, body["metadata"]["name"])
        if key in self.objects:
            raise AlreadyExists(409, "AlreadyExists", f"{key[2]} exists")
        return self._answer(resource, self._store(key, _plain(body)), trouble)

    async def update(self, resource: Resource[T], body: Mapping[str, Any], *, namespace: str = "") -> T:
        trouble = await self._begin("update", body["metadata"]["name"], body)
        key = (resource.plural, namespace, body["metadata"]["name"])
        self._check_preconditions(key, body)
        return self._answer(resource, self._store(key, _plain(body)), trouble)

    async def merge_patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
        field_manager: str = "",
    ) -> T:
        trouble = await self._begin("merge_patch", name, patch)
        key = (resource.plural, namespace, name)
        self._check_preconditions(key, patch)
        merged = _merged(self._found(key), _without_identity(patch))
        return self._answer(resource, self._store(key, merged), trouble)

    async def apply(
        self,
        resource: Resource[T],
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
        field_manager: str,
        force: bool = True,
    ) -> T:
        name = body["metadata"]["name"]
        trouble = await self._begin("apply", name, body)
        key = (resource.plural, namespace, name)
        self._check_uid_of_apply(key, body)
        self._check_preconditions(key, body)
        stated = _without_identity(_plain(body))
        part = (key, f"{field_manager}/{subresource}")
        given_up = _given_up(self._states.get(part, {}), stated)
        self._states[part] = stated
        merged = _merged(_merged(self.objects.get(key, {"metadata": {"name": name}}), given_up), stated)
        return self._answer(resource, self._store(key, merged), trouble)

    async def json_patch(
        self, resource: Resource[T], name: str, patch: Sequence[Mapping[str, Any]], *, namespace: str = ""
    ) -> T:
        trouble = await self._begin("json_patch", name, patch)
        key = (resource.plural, namespace, name)
        patched = copy.deepcopy(self._found(key))
        for operation in patch:
            _operate(patched, operation)
        return self._answer(resource, self._store(key, patched), trouble)

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
    ) -> None:
        await self._begin("delete", name)
        key = (resource.plural, namespace, name)
        self._found(key)
        self._check_preconditions(key, {"metadata": {"uid": uid, "resourceVersion": resource_version}})
        del self.objects[key]

    # --- inside

    async def _begin(self, verb: str, name: str, body: Any = None) -> Any:
        self.calls.append((verb, name))
        self.bodies.append(body)
        troubles = self._troubles.get(verb)
        trouble = troubles.popleft() if troubles else None
        await asyncio.sleep(0)
        if isinstance(trouble, Slow):
            await asyncio.sleep(trouble.seconds)
        if isinstance(trouble, Hang):
            await asyncio.Event().wait()
        if isinstance(trouble, Exception):
            raise trouble
        return trouble

    def _answer(self, resource: Resource[T], stored: Json, trouble: Any) -> T:
        if isinstance(trouble, AnswerLost):
            raise ConnectionResetError("connection reset by peer")
        return msgspec.convert(stored, resource.model)

    def _key(self, resource: Resource[Any], metadata: Mapping[str, Any]) -> tuple[str, str, str]:
        return (resource.plural, metadata.get("namespace") or "", metadata["name"])

    def _found(self, key: tuple[str, str, str]) -> Json:
        if key not in self.objects:
            raise NotFound(404, "NotFound", f"{key[2]} not found", details={"name": key[2]})
        return self.objects[key]

    def _check_preconditions(self, key: tuple[str, str, str], body: Mapping[str, Any]) -> None:
        wanted = body.get("metadata") or {}
        has = self.objects.get(key, {}).get("metadata", {})
        for field in ("uid", "resourceVersion"):
            if wanted.get(field) and wanted[field] != has.get(field):
                raise Conflict(409, "Conflict", f"{field} is {has.get(field)}, not {wanted[field]}")

    def _check_uid_of_apply(self, key: tuple[str, str, str], body: Mapping[str, Any]) -> None:
        """An apply that names another object's UID is refused in a way of its own."""
        wanted = body["metadata"].get("uid")
        if key in self.objects and wanted and wanted != self.objects[key]["metadata"]["uid"]:
            causes = [{"field": "metadata.uid", "message": "field is immutable"}]
            raise Invalid(422, "Invalid", "metadata.uid: field is immutable", details={"causes": causes})

    def _store(self, key: tuple[str, str, str], body: Json) -> Json:
        before = self.objects.get(key)
        metadata = {**body.get("metadata", {}), "name": key[2]}
        if key[1]:
            metadata["namespace"] = key[1]
        metadata["uid"] = before["metadata"]["uid"] if before else metadata.get("uid") or f"uid-{self._version + 1}"
        self._version += 1
        metadata["resourceVersion"] = str(self._version)
        self.objects[key] = {**body, "metadata": metadata}
        return copy.deepcopy(self.objects[key])


def _plain(body: Any) -> Json:
    plain: Json = msgspec.to_builtins(body)
    return copy.deepcopy(plain)


def _without_identity(body: Mapping[str, Any]) -> Json:
    plain = _plain(body)
    if "metadata" in plain:
        plain["metadata"] = {k: v for k, v in plain["metadata"].items() if k not in ("uid", "resourceVersion")}
    return plain


def _merged(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _given_up(before: Json, now: Json) -> Json:
    """What was stated before and is no longer, as a merge patch."""
    patch: Json = {}
    for key, value in before.items():
        if key not in now:
            patch[key] = None
        elif isinstance(value, dict) and isinstance(now[key], dict):
            patch[key] = _given_up(value, now[key])
    return patch


def _operate(target: Any, operation: Mapping[str, Any]) -> None:
    *parents, last = operation["path"].removeprefix("/").split("/")
    for part in parents:
        target = target[int(part)] if isinstance(target, list) else target.get(part, {})
    place: Any = int(last) if isinstance(target, list) and last != "-" else last
    has = target[place] if isinstance(target, list) and last != "-" and place < len(target) else None
    has = target.get(last) if isinstance(target, dict) else has
    if operation["op"] == "test" and has != operation["value"]:
        raise Invalid(422, "Invalid", f"test failed at {operation['path']}")
    if operation["op"] == "remove":
        del target[place]
    if operation["op"] == "add" and isinstance(target, list):
        target.append(operation["value"])
    elif operation["op"] == "add":
        target[last] = operation["value"]
