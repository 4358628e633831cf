"""Which of the tokens on offer the kubelet should take: a hint, so that what is handed over can be given.

Guarantees   Never two tokens of one card beside those that must be taken, and the cards by the rule of `card_budget`,
             the one that admission foresees by. What must be taken is; a wish for certain cards goes before the rule.
             Too few cards that fit make no hint at all, never an error: an error would fail the Pod.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from gpustack_op.agent.plugin.health import Standing
from gpustack_op.agent.plugin.tokens import TokenError, by_card, read
from gpustack_op.api.core import Pod
from gpustack_op.scheduling.card_budget import CardBudget, Piece, card_budget

WISHED_IDS = "device.gpustack.ai/accelerator.preferred-id"
WISHED_INDEXES = "device.gpustack.ai/accelerator.preferred-index"


def hint(
    standing: Standing,
    piece: Piece,
    available: Sequence[str],
    must: Sequence[str],
    size: int,
    *,
    wished: Collection[str] = (),
) -> list[str]:
    """Tokens; none when they would be no better than any. `piece` is what is taken of each card."""
    try:
        offered = by_card(map(read, sorted(available)))
        taken = by_card(map(read, must))
    except TokenError:
        return []
    open_cards = set(offered) - set(taken) - set(standing.withheld)
    budget = card_budget(standing.groups, standing.ledger)
    chosen: list[str] = []
    for cards in (open_cards & set(wished), open_cards - set(wished)):
        chosen += _chosen(_only(budget, cards), piece, size - len(must) - len(chosen))
    if len(must) + len(chosen) < size:
        return []
    return [*must, *(offered[card][0].written for card in chosen)]


def wished_cards(pod: Pod, standing: Standing) -> frozenset[str]:
    """The cards that a Pod would like, by id or by number, separated by commas."""
    ids = _listed(pod.annotations.get(WISHED_IDS, ""))
    numbers = _listed(pod.annotations.get(WISHED_INDEXES, ""))
    return frozenset(
        card.id
        for group in standing.groups
        for card in group.accelerators or ()
        if card.id in ids or str(card.index) in numbers
    )


def _chosen(budget: CardBudget, piece: Piece, count: int) -> list[str]:
    """Up to so many different cards."""
    found: list[str] = []
    for _ in range(count):
        left = {card.id for card in budget.cards} - set(found)
        best = _only(budget, left).choose(replace(piece, cards=1))
        if best is None:
            break
        found.append(best[0][0])
    return found


def _only(budget: CardBudget, cards: Collection[str]) -> CardBudget:
    kept = [(card, use) for card, use in zip(budget.cards, budget.uses, strict=True) if card.id in cards]
    return CardBudget(tuple(card for card, _use in kept), tuple(use for _card, use in kept))


def _listed(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())
