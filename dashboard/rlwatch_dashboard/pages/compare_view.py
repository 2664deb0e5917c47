"""Which runs are compared and how they are grouped, as the address of the page says it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl

from rlwatch_dashboard import addresses

MOST_RUNS = 40
"""Runs that are compared at once; an address that names more is cut off there, and the page says so."""


@dataclass(frozen=True)
class Chosen:
    """What is compared.

    Args:
        runs: Keys of runs, each once.
        by: Names of settings to group by; nothing for all that differ.
        left_out: How many more runs the address names.
    """

    runs: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    left_out: int = 0

    @classmethod
    def of(cls, search: str | None) -> Chosen:
        """What an address's search part says.

        >>> Chosen.of("?run=a&run=b%20c&run=a&by=lr")
        Chosen(runs=('a', 'b c'), by=('lr',), left_out=0)
        """
        given = parse_qsl((search or "").removeprefix("?"))
        runs = tuple(dict.fromkeys(value for name, value in given if name == "run"))
        by = tuple(dict.fromkeys(value for name, value in given if name == "by"))
        return cls(runs[:MOST_RUNS], by, max(0, len(runs) - MOST_RUNS))

    def address(self) -> str:
        """Where it is."""
        return addresses.compare(self.runs, self.by)

    def grouped(self, by: tuple[str, ...]) -> str:
        """Where the same runs are, grouped otherwise."""
        return addresses.compare(self.runs, by)
