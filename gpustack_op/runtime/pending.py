"""Our own writes that the watch has not told us of yet.

Guarantees   What the watch says of an object is passed on only if it is no older than our last write of it. An object
             whose deletion was answered stays hidden until the watch says so.
Assumptions  The watch tells changes in the order of their versions.
Recovery     A write that the watch passes without a word was of an object outside the selection: `overtaken` names
             it.
"""

from __future__ import annotations

from gpustack_op.runtime.change import Key


class Pending:
    def __init__(self) -> None:
        self._written: dict[Key, int] = {}
        self._deleted: dict[Key, str] = {}

    def clear(self) -> None:
        self._written.clear()
        self._deleted.clear()

    def wrote(self, key: Key, uid: str, version: int) -> bool:
        """Notes a write; False when something newer of ours is known already."""
        if self._written.get(key, -1) >= version or self._deleted.get(key) == uid:
            return False
        self._written[key] = version
        self._deleted.pop(key, None)
        return True

    def deleted(self, key: Key, uid: str) -> None:
        """Notes a deletion."""
        self._deleted[key] = uid
        self._written.pop(key, None)

    def outdates(self, key: Key, uid: str, version: int | None) -> bool:
        """Whether what the watch says of the object is older than what we did to it."""
        if not self._written and not self._deleted:
            return False
        hidden = self._deleted.get(key)
        if hidden == uid:
            return True
        if hidden is not None:
            del self._deleted[key]
        written = self._written.get(key)
        if written is None or version is None:
            return False
        if version < written:
            return True
        del self._written[key]
        return False

    def told_deleted(self, key: Key, uid: str, version: int | None) -> bool:
        """As `outdates` for a deletion that the watch tells, which ends the hiding."""
        outdated = self.outdates(key, uid, version)
        if self._deleted.get(key) == uid:
            del self._deleted[key]
        return outdated

    def overtaken(self, version: int) -> list[Key]:
        """Forgets and returns the objects whose writes the watch has now passed without telling of them."""
        if not self._written:
            return []
        passed = [key for key, written in self._written.items() if written <= version]
        for key in passed:
            del self._written[key]
        return passed

    def beyond(self, version: int | None) -> list[Key]:
        """The objects written after that version; earlier writes are forgotten, since a list holds them."""
        if version is not None:
            self.overtaken(version)
        return list(self._written)

    def hides(self, key: Key, uid: str) -> bool:
        return self._deleted.get(key) == uid

    def keep_hidden(self, listed: dict[Key, str]) -> None:
        """Forgets the deletions of objects that a list (key to UID) no longer holds."""
        self._deleted = {key: uid for key, uid in self._deleted.items() if listed.get(key) == uid}
