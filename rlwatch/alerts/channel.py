"""What a way to people looks like from the outbox."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rlwatch.runs.records import Alert, Severity


@dataclass(frozen=True)
class Message:
    """What is told of one rule in one run.

    Args:
        changes: Its changes since it was last told of, the oldest first; the last one is how things stand.
    """

    changes: tuple[Alert, ...]

    @property
    def alert(self) -> Alert:
        """How things stand."""
        return self.changes[-1]


class TryLater(Exception):  # noqa: N818
    """It did not get through this time.

    Args:
        why: In words, without a secret.
        after: Seconds to wait at least, where the other side asked for it.
    """

    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


class Refused(Exception):  # noqa: N818
    """It will not get through in this session, however often it is tried.

    Args:
        why: In words, without a secret.
        keep: Whether it may get through at the next start, with other settings.
    """

    def __init__(self, why: str, *, keep: bool) -> None:
        super().__init__(why)
        self.keep = keep


class Channel(Protocol):
    """A way to people. It is called from one thread, and may take its time."""

    @property
    def name(self) -> str:
        """As file names and log lines have it: lower-case letters, digits and dashes."""

    @property
    def least(self) -> Severity:
        """Alerts that are less severe are not sent."""

    @property
    def together(self) -> bool:
        """Whether several rules of one run fit into one sending."""

    @property
    def active(self) -> bool:
        """Whether it can be sent through at this moment; what happens while it cannot is not meant for it."""

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages about one run. When it returns, they have arrived.

        Raises:
            TryLater: They have not, and it makes sense to try again.
            Refused: They have not, and it makes none.
        """
