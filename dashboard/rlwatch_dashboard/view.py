"""What the page of completions shows, as its address says it: a link, and the way back, give the same again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from rlwatch_dashboard import addresses
from rlwatch_dashboard.shards import KINDS

LONGEST_SEARCH = 500


@dataclass(frozen=True)
class View:
    """What is shown.

    Args:
        step: The step whose completions they are; None is the newest.
        kind: Only groups of this kind.
        q: Only groups with this in their prompt or in a completion.
        beside: A second step, beside it.
        group: Only this group.
        page: Which groups of those that are left; the first page is 1.
    """

    step: int | None = None
    kind: str | None = None
    q: str = ""
    beside: int | None = None
    group: int | None = None
    page: int = 1

    @classmethod
    def of(cls, search: str | None) -> View:
        """What an address's search part says. What makes no sense in it is left out.

        >>> View.of("?step=120&kind=stuck&q=a%26b&beside=40")
        View(step=120, kind='stuck', q='a&b', beside=40, group=None, page=1)
        >>> View.of("?step=-1&kind=what&page=x")
        View(step=None, kind=None, q='', beside=None, group=None, page=1)
        """
        given = dict(parse_qsl((search or "").removeprefix("?")))
        return cls(
            step=whole(given.get("step")),
            kind=given.get("kind") if given.get("kind") in KINDS else None,
            q=given.get("q", "")[:LONGEST_SEARCH].encode(errors="replace").decode(),  # half a letter is none
            beside=whole(given.get("beside")),
            group=whole(given.get("group")),
            page=max(1, whole(given.get("page")) or 1),
        )

    def search(self) -> str:
        """It as an address's search part.

        >>> View(step=5, q="a b").search()
        '?step=5&q=a+b'
        """
        given = {
            "step": self.step,
            "kind": self.kind,
            "q": self.q,
            "beside": self.beside,
            "group": self.group,
            "page": None if self.page == 1 else self.page,
        }
        found = {name: value for name, value in given.items() if value not in (None, "")}
        return f"?{urlencode(found, errors='replace')}" if found else ""

    def but(self, **changes: Any) -> View:
        """It with something else; on its first page, unless that is what changes."""
        return replace(self, **{"page": 1, **changes})


def address(run: str, view: View | None = None) -> str:
    """Where a view of a run's completions is."""
    return addresses.run(run, "completions", (view or View()).search())


def whole(value: Any) -> int | None:
    """A number out of an address or a field: decimal digits, or none.

    >>> whole("12"), whole(" 7 "), whole("-1"), whole("²"), whole(None)
    (12, 7, None, None, None)
    """
    text = str(value).strip() if value is not None else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
