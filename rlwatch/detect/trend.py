"""A straight line through the recent past of a series, and whether it is more than its noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

MOST_ALIKE = 0.95
"""An autocorrelation beyond this cannot be told from a random walk in the records of one half-life."""


@dataclass(slots=True)
class Trend:
    """Weighted least squares x ≈ level + slope·(t − now), with weights 2^−(now − t)/half_life: O(1) a value.

    All sums are taken relative to the newest step and moved along with it, so no precision is lost in a long run.
    The error of the slope is that of weighted least squares under noise with the autocorrelation φ of neighbouring
    residuals, whose variance it widens by (1 + φ)/(1 − φ); φ is estimated from the errors of predicting each value from
    the line before it, and corrected for its bias in short series (Marriott and Pope 1954: −(1 + 3φ)/n).

    Args:
        half_life: Optimizer steps after which a value counts half.
    """

    half_life: float
    step: int | None = None
    count: float = 0.0  # (Σw)²/Σw² is `effective_count`; this is the number of values
    _w: float = 0.0  # Σw, Σwτ, Σwτ², with τ = t − now
    _wt: float = 0.0
    _wtt: float = 0.0
    _q: float = 0.0  # the same of w²
    _qt: float = 0.0
    _qtt: float = 0.0
    _x: float = 0.0  # Σwx, Σwτx, Σwx²
    _xt: float = 0.0
    _xx: float = 0.0
    _error: float = 0.0  # of the last prediction, and sums of errors' products
    _squares: float = 0.0
    _products: float = 0.0
    _passed: int = -1  # steps between the last two values, and what is left of a weight after so many
    _decay: float = 1.0
    _of: float = 0.0  # and the half-life that this is for

    def update(self, step: int, value: float) -> None:
        """Take in a finite value; steps never go back."""
        passed = 0 if self.step is None else step - self.step
        if passed != self._passed or self._of != self.half_life:  # most rows are as far apart: a power is costly
            self._passed, self._of, self._decay = passed, self.half_life, 0.5 ** (passed / self.half_life)
        decay = self._decay
        w, old_wt, q, old_qt, x = self._w, self._wt, self._q, self._qt, self._x
        # τ − passed in place of τ, before anything is forgotten: Σwτ² − 2·passed·Σwτ + passed²·Σw, and so on
        wt, qt = old_wt - passed * w, old_qt - passed * q
        wtt = decay * (self._wtt - passed * (old_wt + wt))
        xt = decay * (self._xt - passed * x)
        squared = decay * decay
        self._qtt = squared * (self._qtt - passed * (old_qt + qt))
        self._qt = squared * qt
        self._q = squared * q + 1.0
        w *= decay
        wt *= decay
        x *= decay
        if self.count >= 3 and w > 0:
            spread = w * wtt - wt * wt
            slope = (w * xt - wt * x) / spread if spread > 1e-9 * w * w else 0.0
            error = value - (x - slope * wt) / w
            self._squares = decay * self._squares + error * error
            self._products = decay * self._products + error * self._error
            self._error = error
        self._w = w + 1.0
        self._wt = wt
        self._wtt = wtt
        self._x = x + value
        self._xt = xt
        self._xx = decay * self._xx + value * value
        self.step = step
        self.count += 1

    @property
    def slope(self) -> float:
        """By how much a step changes it; 0 while there is one step only."""
        spread = self._w * self._wtt - self._wt * self._wt
        return (self._w * self._xt - self._wt * self._x) / spread if spread > 1e-9 * self._w * self._w else 0.0

    @property
    def level(self) -> float:
        """The line's value at the newest step."""
        w, wt = self._w, self._wt
        if not w:
            return math.nan
        spread = w * self._wtt - wt * wt
        return (self._x - (w * self._xt - wt * self._x) / spread * wt) / w if spread > 1e-9 * w * w else self._x / w

    @property
    def effective_count(self) -> float:
        """(Σw)²/Σw²: how many equally weighted values it rests on."""
        return self._w * self._w / self._q if self._q else 0.0

    @property
    def alike(self) -> float:
        """φ, the autocorrelation of neighbouring residuals, from 0 to `MOST_ALIKE`."""
        if self.count < 6 or self._squares <= 0:
            return 0.0
        raw = self._products / self._squares
        corrected = raw + (1 + 3 * raw) / max(4.0, self.effective_count)
        return min(MOST_ALIKE, max(0.0, corrected))

    @property
    def scatter(self) -> float:
        """The standard deviation of the values around the line."""
        if self._w <= 0:
            return math.nan
        slope, level = self.slope, self.level
        # Σw(x − level − slope·τ)², by its normal equations
        left = self._xx - level * self._x - slope * self._xt
        freedom = max(1e-9, 1 - 2 / self.effective_count) if self.effective_count > 2 else 1e-9
        return math.sqrt(max(0.0, left) / self._w / freedom)

    @property
    def covariance(self) -> tuple[float, float, float] | None:
        """Variance of the level, covariance of the two, variance of the slope; None while nothing can be said.

        (AᵀWA)⁻¹ AᵀW²A (AᵀWA)⁻¹ · scatter² · (1 + φ)/(1 − φ), with the rows (1, τ) of A.
        """
        spread = self._w * self._wtt - self._wt * self._wt
        if self.count < 6 or spread <= 1e-9 * self._w * self._w:
            return None
        a, b, c = self._wtt / spread, -self._wt / spread, self._w / spread
        p, q = a * self._q + b * self._qt, a * self._qt + b * self._qtt
        r, s = b * self._q + c * self._qt, b * self._qt + c * self._qtt
        phi = self.alike
        widened = self.scatter**2 * (1 + phi) / (1 - phi)
        return (p * a + q * b) * widened, (p * b + q * c) * widened, max(0.0, r * b + s * c) * widened

    @property
    def slope_error(self) -> float:
        """The standard error of the slope; inf while nothing can be said."""
        covariance = self.covariance
        return math.inf if covariance is None else math.sqrt(covariance[2])

    @property
    def significance(self) -> float:
        """The slope in its standard errors; 0 while nothing can be said."""
        error = self.slope_error
        if not math.isfinite(error):
            return 0.0
        if error <= 0:
            return math.copysign(math.inf, self.slope) if self.slope else 0.0
        return self.slope / error
