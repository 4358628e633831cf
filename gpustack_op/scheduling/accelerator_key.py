"""The accelerator key: which card a node has, as one word for labels and names.

Guarantees  A key is `<manufacturer>-<group id>`, at most 54 characters (room for `.capacity` in a label's name), never
            without an id, and the ids of one node are distinct: where two groups would share one, each carries its
            memory size, and where that tells nothing apart, a hash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gpustack_op.scheduling.cpu_key import KEY_LIMIT
from gpustack_op.scheduling.memory_text import short_text
from gpustack_op.scheduling.names import short_hash
from gpustack_op.scheduling.sanitise import slug

_HASH_LENGTH = 8
_CUT = KEY_LIMIT - _HASH_LENGTH - 1
"""Characters of a long key that stay in front of its hash."""


@dataclass(frozen=True, slots=True)
class Product:
    """What makes cards one group: the name the driver gives, and the memory in MiB (0: unknown)."""

    manufacturer: str
    name: str
    memory: int = 0


def accelerator_key(manufacturer: str, group_id: str) -> str:
    return f"{manufacturer}-{group_id}"


def group_id(product: Product, *, with_memory: bool = False) -> str:
    """The id of a group that is alone with its name on its node."""
    return _fitted(product, f"-{short_text(product.memory)}" if with_memory else "")


def group_ids(products: Sequence[Product], *, with_memory: bool = False) -> list[str]:
    """The ids of the distinct groups of one node, in their order. `with_memory` gives every id its memory size."""
    ids = [group_id(product, with_memory=with_memory) for product in products]
    ids = _told_apart(products, ids, [f"-{short_text(product.memory)}" for product in products])
    return _told_apart(products, ids, [f"-{short_hash(f'{product.name}/{product.memory}')}" for product in products])


def _told_apart(products: Sequence[Product], ids: Sequence[str], suffixes: Sequence[str]) -> list[str]:
    """Gives those that share an id their suffix."""
    taken = Counter((product.manufacturer, given) for product, given in zip(products, ids, strict=True))
    return [
        _fitted(product, suffix) if taken[product.manufacturer, given] > 1 else given
        for product, given, suffix in zip(products, ids, suffixes, strict=True)
    ]


def _fitted(product: Product, suffix: str) -> str:
    lead = f"{product.manufacturer}-"
    base = slug(product.name, prefix=product.manufacturer) or f"card-{short_hash(product.name)}"
    if len(lead + base + suffix) <= KEY_LIMIT:
        return base + suffix
    kept = (lead + base)[: _CUT - len(suffix)].removeprefix(lead).rstrip("-_.")
    return f"{kept}-{short_hash(product.name)}{suffix}"
