"""Objects by namespace and name, with secondary indexes.

Guarantees   An index always agrees with the objects. `swap` shows the new objects all at once.
Assumptions  Objects are frozen. An index's function looks at nothing but the object.
Recovery     An index's function that raises is logged, and that object is in no entry of the index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from gpustack_op.api.meta import KubeObject
from gpustack_op.runtime.change import Key, key_of
from gpustack_op.runtime.logging import logger

T = TypeVar("T", bound=KubeObject)

log = logger("store")


class Store(Generic[T]):
    def __init__(self) -> None:
        self._objects: dict[str, dict[str, T]] = {}
        self._indexes: dict[str, Index[T]] = {}

    def __len__(self) -> int:
        return sum(len(names) for names in self._objects.values())

    def __iter__(self) -> Iterator[T]:
        for names in list(self._objects.values()):
            yield from list(names.values())

    def get(self, key: Key) -> T | None:
        names = self._objects.get(key[0])
        return names.get(key[1]) if names is not None else None

    def all(self, namespace: str = "") -> list[T]:
        return list(self._objects.get(namespace, {}).values()) if namespace else list(self)

    def put(self, obj: T) -> T | None:
        """Returns what it replaced."""
        namespace, name = key_of(obj)
        names = self._objects.setdefault(namespace, {})
        old = names.get(name)
        names[name] = obj
        for index in self._indexes.values():
            index.replace(old, obj)
        return old

    def remove(self, key: Key) -> T | None:
        """Returns what was there."""
        names = self._objects.get(key[0], {})
        old = names.pop(key[1], None)
        if not names:
            self._objects.pop(key[0], None)
        if old is not None:
            for index in self._indexes.values():
                index.replace(old, None)
        return old

    def swap(self, objects: Mapping[Key, T]) -> None:
        """These objects and no others."""
        fresh: dict[str, dict[str, T]] = {}
        for (namespace, name), obj in objects.items():
            fresh.setdefault(namespace, {})[name] = obj
        indexes = {name: Index(name, index.keys, objects.values()) for name, index in self._indexes.items()}
        self._objects, self._indexes = fresh, indexes

    def add_index(self, name: str, keys: Callable[[T], Iterable[str]]) -> None:
        if name in self._indexes:
            raise ValueError(f"index {name!r} exists")
        self._indexes[name] = Index(name, keys, self)

    def by_index(self, name: str, key: str) -> list[T]:
        return self._indexes[name].get(key)

    def has_index(self, name: str) -> bool:
        return name in self._indexes


class Index(Generic[T]):
    """The objects under each key that `keys` gives for them."""

    def __init__(self, name: str, keys: Callable[[T], Iterable[str]], objects: Iterable[T]) -> None:
        self.name = name
        self.keys = keys
        self._entries: dict[str, dict[Key, T]] = {}
        for obj in objects:
            self.replace(None, obj)

    def get(self, key: str) -> list[T]:
        return list(self._entries.get(key, {}).values())

    def replace(self, old: T | None, new: T | None) -> None:
        if old is not None:
            self._drop(old)
        if new is not None:
            for key in self._keys_of(new):
                self._entries.setdefault(key, {})[key_of(new)] = new

    def _drop(self, old: T) -> None:
        for key in self._keys_of(old):
            entry = self._entries.get(key)
            if entry is not None:
                entry.pop(key_of(old), None)
                if not entry:
                    del self._entries[key]

    def _keys_of(self, obj: T) -> tuple[str, ...]:
        try:
            return tuple(self.keys(obj))
        except Exception:
            log.exception("index.failed", index=self.name, namespace=obj.namespace, name=obj.name)
            return ()
