"""How a run's page shows its curves, as its address says it: a link, and the way back, give the same again."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from rlwatch_dashboard.smoothing import MOST

X = {"step": "Step", "time": "Time", "tokens": "Tokens"}
"""What the curves can be drawn over."""

MOST_OTHERS = 6
"""How many other runs are drawn beside one: so many colours can be told apart."""

LONGEST_SEARCH = 4000


@dataclass(frozen=True)
class RunView:
    """What is shown.

    Args:
        x: What the curves are drawn over, of `X`.
        log: The keys of the charts with a logarithmic y axis.
        smooth: The weight of the moving average; 0 is none.
        others: The keys of the runs that are drawn beside it.
        band: Whether the runs that differ by their seed alone are drawn as a band.
    """

    x: str = "step"
    log: tuple[str, ...] = ()
    smooth: float = 0.0
    others: tuple[str, ...] = ()
    band: bool = False

    @classmethod
    def of(cls, search: Any) -> RunView:
        """What an address's search part says. What makes no sense in it is left out.

        >>> RunView.of("?x=time&log=entropy&smooth=0.9&with=a%26b&seeds=band")
        RunView(x='time', log=('entropy',), smooth=0.9, others=('a&b',), band=True)
        >>> RunView.of("?x=money&smooth=nan&with=")
        RunView(x='step', log=(), smooth=0.0, others=(), band=False)
        """
        text = search[:LONGEST_SEARCH] if isinstance(search, str) else ""
        pairs = parse_qsl(text.removeprefix("?"))
        given = dict(pairs)
        return cls(
            x=given["x"] if given.get("x") in X else "step",
            log=tuple(dict.fromkeys(value for name, value in pairs if name == "log")),
            smooth=_weight(given.get("smooth")),
            others=tuple(dict.fromkeys(value for name, value in pairs if name == "with"))[:MOST_OTHERS],
            band=given.get("seeds") == "band",
        )

    def search(self) -> str:
        """It as an address's search part.

        >>> RunView(smooth=0.5, others=("a b", "c")).search(), RunView().search()
        ('?smooth=0.5&with=a+b&with=c', '')
        """
        pairs = [("x", self.x)] if self.x != "step" else []
        pairs += [("log", key) for key in self.log]
        pairs += [("smooth", f"{self.smooth:g}")] if self.smooth else []
        pairs += [("with", key) for key in self.others]
        pairs += [("seeds", "band")] if self.band else []
        return f"?{urlencode(pairs, errors='replace')}" if pairs else ""

    def but(self, **changes: Any) -> RunView:
        """It with something else."""
        return replace(self, **changes)

    def toggled(self, name: str, value: str) -> RunView:
        """It with something more in a list, or without it where it was there.

        >>> RunView().toggled("log", "loss").log, RunView(log=("loss",)).toggled("log", "loss").log
        (('loss',), ())
        """
        now = getattr(self, name)
        rest = tuple(one for one in now if one != value)
        return self.but(**{name: rest if value in now else (*now, value)})


def _weight(text: str | None) -> float:
    try:
        weight = float(text or 0)
    except ValueError:
        return 0.0
    return min(weight, MOST) if math.isfinite(weight) and weight > 0 else 0.0
