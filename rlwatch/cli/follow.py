"""`rlwatch follow`: a growing log of another framework is judged as it grows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlwatch.cli.common import RUNS, EveryOption, NoSendOption, SettingsOption, chooser_of, options_of, wrong

if TYPE_CHECKING:
    from rlwatch.readers import Options
    from rlwatch.runs.records import Alert
    from rlwatch.settings import Chooser


def follow(
    path: Annotated[Path, typer.Argument(help="A growing log of another framework.")],
    into: Annotated[Path, typer.Option(help="The folder of runs to keep it in, for the page.")] = RUNS,
    every: EveryOption = None,
    settings: SettingsOption = None,
    no_send: NoSendOption = False,
) -> None:
    """Watch a growing log of another framework: alerts here and sent, curves on the page; end with Ctrl-C."""
    follow_log(str(path), options_of(every, []), into, send=not no_send, chooser=chooser_of(settings, []))


def follow_log(path: str, options: Options, into: Path | None, *, send: bool, chooser: Chooser) -> None:
    """Judge a log until Ctrl-C, and tell of what is found."""
    from rlwatch.alerts import stdout
    from rlwatch.alerts.configured import Delivery
    from rlwatch.alerts.obeying import why_quiet
    from rlwatch.readers import UnreadableError
    from rlwatch.report.follow import Follower, follow

    said_of: set[str] = set()

    def note(where: str, error: Exception) -> None:
        if where not in said_of:
            said_of.add(where)
            print(f"rlwatch: {where} failed: {error}", file=sys.stderr)

    try:
        settings = chooser.of(path)
        delivery = Delivery.read(settings.alerts)
    except ValueError as error:
        raise wrong(str(error)) from None
    names = [channel.name for channel in delivery.channels() if channel.active] if send else []

    def tell(change: Alert) -> None:
        stdout.show(change, why_quiet(follower.run_dir, change))

    follower = Follower(
        path,
        options,
        into=into,
        tell=tell,
        settings=settings,
        open_outbox=(lambda folder: delivery.open(folder, others=into, note=note)) if names else None,
    )
    rows, said = 0, False
    try:
        for judged in follow(follower):
            rows += judged
            if not said:
                where = f", kept in {follower.run_dir}; see it with: rlwatch dashboard {into}" if into else ""
                print(f"rlwatch: following {path}, {rows} rows so far{where}", flush=True)
                if names:
                    print(f"rlwatch: alerts about what comes from here on go to {', '.join(names)}", flush=True)
                said = True
    except KeyboardInterrupt:
        pass
    except UnreadableError as error:
        raise wrong(f"could not read {path}: {error}") from None
    finally:
        rows += follower.finish()
    print(f"rlwatch: {rows} rows judged", flush=True)
