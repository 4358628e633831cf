"""What each error of NVIDIA's library means for us.

One exception, with a meaning: "this card does not have that" is no fault, "the card is gone" makes one card sick, and
"the driver cannot be asked" makes all of them sick. A code that nobody has told us of is a fault of the card.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class Meaning(Enum):
    ABSENT = "not supported"
    """The card, or its driver's version, does not have what was asked for. Decides nothing."""
    FORBIDDEN = "not permitted"
    """The agent lacks a permission, as a guest does on its host's card."""
    NOTHING = "not found"
    """No such instance, no event in time."""
    IN_USE = "in use"
    FULL = "no room"
    LOST = "the card is lost"
    """The card has fallen off its bus, or needs a reset."""
    DRIVER = "the driver cannot be asked"
    """Not loaded, not initialised any more, or just being replaced: true of every card."""
    MISMATCH = "library and driver differ in version"
    """The driver was replaced under us; the library has to be loaded anew."""
    FAULT = "failed"


class NvmlError(Exception):
    """`call` is the library's function, `code` its answer; 0 when it is we who are not content."""

    def __init__(self, call: str, code: int, text: str) -> None:
        super().__init__(f"{call}: {text}" + (f" (NVML error {code})" if code else ""))
        self.call = call
        self.code = code
        self.text = text
        self.meaning = MEANINGS.get(code, Meaning.FAULT)

    def again(self) -> NvmlError:
        """The same to be raised once more: one exception that is raised over and over grows."""
        return NvmlError(self.call, self.code, self.text)


MEANINGS: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        1: Meaning.DRIVER,  # uninitialised
        2: Meaning.ABSENT,  # invalid argument: an older driver does not know the question
        3: Meaning.ABSENT,  # not supported
        4: Meaning.FORBIDDEN,  # no permission
        6: Meaning.NOTHING,  # not found
        7: Meaning.FAULT,  # insufficient size
        8: Meaning.LOST,  # insufficient external power
        9: Meaning.DRIVER,  # driver not loaded
        10: Meaning.NOTHING,  # timeout
        11: Meaning.LOST,  # interrupt request issue
        12: Meaning.DRIVER,  # library not found
        13: Meaning.ABSENT,  # function not found
        14: Meaning.LOST,  # corrupted inforom
        15: Meaning.LOST,  # GPU is lost
        16: Meaning.LOST,  # reset required
        17: Meaning.FORBIDDEN,  # blocked by the operating system
        18: Meaning.MISMATCH,  # library and kernel module differ
        19: Meaning.IN_USE,  # in use
        20: Meaning.FAULT,  # insufficient memory
        21: Meaning.ABSENT,  # no data
        22: Meaning.ABSENT,  # no ECC on a virtual GPU
        23: Meaning.FULL,  # insufficient resources
        25: Meaning.ABSENT,  # argument version mismatch
        26: Meaning.ABSENT,  # deprecated
        27: Meaning.LOST,  # not ready
        28: Meaning.LOST,  # GPU not found
        29: Meaning.LOST,  # invalid state
        999: Meaning.LOST,  # unknown: what a card answers that has just fallen off its bus
    }
)
"""By the codes of the public header."""

OF_THE_DRIVER: Final = frozenset({Meaning.DRIVER, Meaning.MISMATCH})
"""Errors that say nothing about a single card."""
