"""When a card counts as healthy: unhealthy at once, healthy again only after a time without a relapse.

A card that flickers would otherwise be given out in every bright moment.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Health:
    """`since` is when the present unbroken health began, None while the card is sick."""

    unhealthy: bool
    since: float | None


SICK = Health(unhealthy=True, since=None)


def first_seen(*, healthy: bool, now: float) -> Health:
    """A card nobody has seen before is what it says."""
    return Health(unhealthy=False, since=now) if healthy else SICK


def recalled(*, unhealthy: bool) -> Health:
    """A card that a former life of this agent has reported: one reported sick has all its recovery before it."""
    return SICK if unhealthy else Health(unhealthy=False, since=0.0)


def observed(before: Health, *, healthy: bool, now: float, recovery: float) -> Health:
    if not healthy:
        return SICK
    since = now if before.since is None else before.since
    return Health(unhealthy=before.unhealthy and now - since < recovery, since=since)
