"""What a test sees of Dash's components."""

from __future__ import annotations

from typing import Any


def text_of(component: Any) -> str:
    """All text in a component, as a reader would see it."""
    if component is None:
        return ""
    if isinstance(component, (list, tuple)):
        return " ".join(text_of(part) for part in component)
    if hasattr(component, "to_plotly_json"):
        return text_of(getattr(component, "children", None))
    return str(component)
