"""Wraps methods of a trainer instance, and takes the wrapping off again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rlwatch.capture.guard import Guard


class Hooks:
    """Runs functions before and after methods of one object.

    The method is called once, with what it was given; its result and its exceptions go through unchanged. What the
    functions raise stays in the guard.

    Args:
        target: The object; only its own attributes change, never its class.
        guard: Catches what the functions raise.
    """

    def __init__(self, target: Any, guard: Guard) -> None:
        self._target = target
        self._guard = guard
        self._wrapped: dict[str, tuple[Any, Any]] = {}
        self._active = True

    def add(
        self,
        name: str,
        *,
        before: Callable[..., None] | None = None,
        after: Callable[..., None] | None = None,
    ) -> None:
        """Hook a method.

        Args:
            name: The method's name.
            before: Called with the method's arguments.
            after: Called with the result and then the method's arguments; not called if the method raises.
        """
        method = getattr(self._target, name)
        guard = self._guard

        @functools.wraps(method)
        def hooked(*args: Any, **kwargs: Any) -> Any:
            if before is not None and self._active:
                guard.run(f"before {name}", before, *args, **kwargs)
            result = method(*args, **kwargs)
            if after is not None and self._active:
                guard.run(f"after {name}", after, result, *args, **kwargs)
            return result

        self._wrapped[name] = (vars(self._target).get(name), hooked)
        setattr(self._target, name, hooked)

    def remove(self) -> None:
        """Put the methods back. One that somebody has wrapped since stays, and passes straight through."""
        self._active = False
        for name, (own, hooked) in self._wrapped.items():
            if vars(self._target).get(name) is hooked:
                if own is None:
                    delattr(self._target, name)
                else:
                    setattr(self._target, name, own)
        self._wrapped.clear()
