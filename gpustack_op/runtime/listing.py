"""A collection as a list or a streamed list told it, while it grows and when it is whole."""

from __future__ import annotations

from typing import Generic, TypeVar

from gpustack_op.api.meta import KubeObject
from gpustack_op.runtime.change import Key, key_of
from gpustack_op.runtime.decode import Event, Page, Undecodable

T = TypeVar("T", bound=KubeObject)


class Listing(Generic[T]):
    def __init__(self) -> None:
        self.objects: dict[Key, T] = {}
        self.undecodable: dict[Key, Undecodable] = {}
        """Objects that exist but could not be read: whatever is known of them from before stays."""

        self.version = ""

    def add_page(self, page: Page[T]) -> None:
        self.version = page.version
        for item in page.items:
            self.objects[key_of(item)] = item
        for damaged in page.undecodable:
            self.undecodable[key_of(damaged.known)] = damaged

    def add_event(self, event: Event[T]) -> None:
        key = key_of(event.object)
        self.undecodable.pop(key, None)
        if event.type == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = event.object

    def add_undecodable(self, damaged: Undecodable) -> None:
        key = key_of(damaged.known)
        if damaged.deleted:
            self.objects.pop(key, None)
            self.undecodable.pop(key, None)
        else:
            self.undecodable[key] = damaged
