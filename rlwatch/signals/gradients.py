"""The gradient as the optimizer gets it."""

from __future__ import annotations


def clip_coefficient(norm: float, max_norm: float | None) -> float:
    """What clipping by the norm multiplies a gradient by: min(1, max_norm / (‖g‖ + 1e-6)).

    As in `torch.nn.utils.clip_grad_norm_`. NaN and inf are not hidden: the coefficient of a NaN norm is NaN.

    Args:
        norm: ‖g‖₂ before clipping.
        max_norm: The limit; None or 0 where clipping is off, then the coefficient is 1.

    >>> round(clip_coefficient(2.0, 1.0), 6)
    0.5
    >>> clip_coefficient(0.5, 1.0)
    1.0
    """
    if not max_norm:
        return 1.0
    coefficient = max_norm / (norm + 1e-6)
    return 1.0 if coefficient > 1.0 else coefficient
