"""Alerts to a command of the user's own: it gets one as JSON on its standard input."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rlwatch.alerts.channel import Message, Refused, TryLater
from rlwatch.alerts.process import run
from rlwatch.runs.jsonl import encode
from rlwatch.runs.records import Severity

TIMEOUT = 30.0
"""Seconds that a command may take."""

TRY_LATER = 75
"""The exit code, EX_TEMPFAIL of sysexits.h, by which a command asks to be called again."""


class Command:
    """A command that is run for every message, without a shell.

    Its standard input is one line: the alert as in alerts.jsonl, and `changes`, how many changes it stands for. What it
    prints is not kept. Its arguments may hold a token, so none of them is ever told, only the program's name.

    Args:
        line: The command with its arguments, quoted as for a shell.
        least: Alerts that are less severe are not sent.
        timeout: Seconds that it may take before it is killed.
    """

    name = "command"
    together = False
    active = True

    def __init__(self, line: str, *, least: Severity = Severity.INFO, timeout: float = TIMEOUT) -> None:
        self.least = least
        self._line = line
        self._timeout = timeout

    def __repr__(self) -> str:
        return "Command(a command)"

    def send(self, messages: Sequence[Message]) -> None:
        """Run the command; see [`Channel.send`][rlwatch.alerts.channel.Channel.send].

        An exit code of 0 says that the message has arrived, 75 that it is worth another try, any other that it is not.
        """
        for message in messages:
            data = encode({**message.alert.to_dict(), "changes": len(message.changes)}) + "\n"
            problem = self._run(data.encode())
            if problem is not None:
                raise problem

    def _run(self, data: bytes) -> TryLater | Refused | None:
        try:
            arguments = shlex.split(self._line)
        except ValueError:
            return Refused("the command's quotes do not match", keep=True)
        if not arguments:
            return Refused("the command is empty", keep=True)
        program = Path(arguments[0]).name
        try:
            code = run(arguments, data, timeout=self._timeout)
        except TimeoutError:
            return Refused(f"{program} took more than {self._timeout:g} s and was killed", keep=False)
        except (OSError, ValueError) as error:
            return Refused(f"{program} cannot be run ({type(error).__name__})", keep=True)
        if code == 0:
            return None
        if code == TRY_LATER:
            return TryLater(f"{program} asked to be called again")
        return Refused(f"{program} ended with exit code {code}", keep=False)
