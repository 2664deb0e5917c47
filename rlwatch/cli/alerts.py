"""`rlwatch alerts`: are the channels set up, and what is said to an alert."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Annotated

import typer

from rlwatch.cli.common import SettingsOption, chooser_of, missing, wrong

app = typer.Typer(help="How alerts reach people.", no_args_is_help=True)

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run directory, or the name of a run in runs/.")]
RuleArgument = Annotated[str, typer.Argument(metavar="RULE", help="The rule, such as dead-groups.")]
WhoOption = Annotated[str, typer.Option(help="Who says so, for the others who see the run.")]
UndoOption = Annotated[bool, typer.Option("--undo", help="Take it back.")]


@app.command("test")
def alerts_test(
    wandb: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="Start a wandb run there, to alert through it, and end it.")
    ] = None,
    settings: SettingsOption = None,
) -> None:
    """Send a test alert through each configured channel and say what happened.

    Exit code: 0 if each arrived, 1 if one did not, 2 if no channel is configured.
    """
    from rlwatch.alerts.configured import APPRISE, COMMAND, WEBHOOKS, channels, try_all

    try:
        configured = channels(settings=chooser_of(settings, []).of(None).alerts)
    except ValueError as error:
        raise wrong(str(error)) from None
    results = try_all([channel for channel in configured if channel.active])
    if wandb is not None:
        results.append(_try_wandb(wandb))
    if not results:
        raise wrong(f"no channel is configured: set {WEBHOOKS[0]}, {COMMAND} or {APPRISE} in the environment")
    for name, problem in results:
        print(f"{name}: {'sent' if problem is None else f'not sent: {problem}'}")
    if wandb is None and importlib.util.find_spec("wandb") is not None:
        print("wandb: not tried: it goes through the run that is active in the training; try one with --wandb PROJECT")
    raise typer.Exit(int(any(problem is not None for _, problem in results)))


def _try_wandb(project: str) -> tuple[str, str | None]:
    from rlwatch.alerts.configured import try_all
    from rlwatch.alerts.wandb import Wandb, try_run

    try:
        with try_run(project) as offline:
            [(name, problem)] = try_all([Wandb()])
    except ImportError as error:
        raise missing("wandb", error) from None
    except Exception as error:
        return "wandb", f"no run could be started ({type(error).__name__})"
    return (f"{name} (offline, until it is synced)" if offline else name), problem


@app.command("ack")
def alerts_ack(
    run: RunArgument,
    rule: RuleArgument,
    since: Annotated[int | None, typer.Option(help="The step at which it began, if several of the rule fire.")] = None,
    who: WhoOption = "",
    undo: UndoOption = False,
) -> None:
    """Acknowledge an alert: it is told again only if it becomes worse, or is over."""
    from rlwatch.report.answer_command import acknowledge

    print(_answered(lambda: acknowledge(run, rule, since, who=who, undo=undo)))


@app.command("silence")
def alerts_silence(
    run: RunArgument,
    rule: RuleArgument,
    until_step: Annotated[int | None, typer.Option(help="The step with which it ends.")] = None,
    hours: Annotated[float | None, typer.Option(help="After how many hours it ends.")] = None,
    who: WhoOption = "",
    undo: UndoOption = False,
) -> None:
    """Be told nothing of a rule in this run: until a step, for hours, or (with neither) for the rest of the run."""
    from rlwatch.report.answer_command import silence

    print(_answered(lambda: silence(run, rule, until_step=until_step, hours=hours, who=who, undo=undo)))


def _answered(answer: Callable[[], str]) -> str:
    try:
        return answer()
    except (ValueError, OSError) as error:
        raise wrong(str(error)) from None
