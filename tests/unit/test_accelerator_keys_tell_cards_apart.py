"""The accelerator key of a card, and the ids of the groups of one node."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_op.scheduling.accelerator_key import Product, accelerator_key, group_id, group_ids

LABEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
PRODUCTS = st.builds(Product, st.sampled_from(["nvidia", "amd"]), st.text(), st.integers(0, 200_000))


@pytest.mark.parametrize(
    ("manufacturer", "name", "expected"),
    [
        ("nvidia", "Tesla T4", "nvidia-tesla-t4"),
        ("nvidia", "NVIDIA A10G", "nvidia-a10g"),
        ("nvidia", "NVIDIA H100 80GB HBM3", "nvidia-h100-80gb-hbm3"),
        ("amd", "MI300X", "amd-mi300x"),
        ("ascend", "Ascend910B2", "ascend-910b2"),
        ("hygon", "K100_AI", "hygon-k100_ai"),
        ("nvidia", "", "nvidia-card-811c9dc5"),
        ("nvidia", "NVIDIA", "nvidia-card-77ae9fbe"),
        ("nvidia", "___", "nvidia-card-045a3b34"),
    ],
)
def test_a_card_is_named_by_its_product(manufacturer: str, name: str, expected: str) -> None:
    assert accelerator_key(manufacturer, group_id(Product(manufacturer, name))) == expected


def test_a_long_name_is_cut_and_closed_with_its_hash() -> None:
    long, longer = ("NVIDIA Board With A Name That Nobody Will Ever Print On It " + end for end in ("A", "B"))
    first, second = (accelerator_key("nvidia", group_id(Product("nvidia", name))) for name in (long, longer))
    assert first.startswith("nvidia-board-with-a-name-that-nobody-will-eve-")
    assert len(first) == 54
    assert first != second


@pytest.mark.parametrize(
    ("products", "expected"),
    [
        pytest.param(
            [Product("nvidia", "Tesla V100-PCIE", 16384), Product("nvidia", "Tesla V100-PCIE", 32768)],
            ["tesla-v100-pcie-16g", "tesla-v100-pcie-32g"],
            id="two memory sizes of one product both carry theirs",
        ),
        pytest.param(
            [Product("nvidia", "Tesla T4", 16384), Product("nvidia", "NVIDIA A10G", 24563)],
            ["tesla-t4", "a10g"],
            id="different products need no memory",
        ),
        pytest.param(
            [Product("nvidia", "X", 0), Product("nvidia", "X", 8192)],
            ["x-0g", "x-8g"],
            id="an unknown memory is a size too",
        ),
        pytest.param(
            [Product("nvidia", "X", 8192), Product("amd", "X", 4096)],
            ["x", "x"],
            id="manufacturers do not get in each other's way",
        ),
    ],
)
def test_groups_of_one_node_are_told_apart(products: list[Product], expected: list[str]) -> None:
    assert group_ids(products) == expected


def test_every_group_carries_its_memory_on_request() -> None:
    assert group_ids([Product("nvidia", "Tesla T4", 15360)], with_memory=True) == ["tesla-t4-15g"]


def test_names_and_sizes_that_look_alike_get_different_ids() -> None:
    alike = [Product("nvidia", "A (1)", 8192), Product("nvidia", "A 1", 8192), Product("nvidia", "A 1", 8193)]
    assert len(set(group_ids(alike))) == 3


@given(PRODUCTS)
def test_a_key_always_fits_its_labels(product: Product) -> None:
    key = accelerator_key(product.manufacturer, group_id(product))
    assert LABEL_NAME.fullmatch(f"{key}.capacity")


@given(st.lists(PRODUCTS, unique=True, max_size=6), st.booleans())
def test_ids_of_one_node_are_distinct_and_fit(products: list[Product], with_memory: bool) -> None:
    keys = {
        accelerator_key(product.manufacturer, given)
        for product, given in zip(products, group_ids(products, with_memory=with_memory), strict=True)
    }
    assert len(keys) == len(products)
    assert [key for key in keys if not LABEL_NAME.fullmatch(f"{key}.capacity")] == []
