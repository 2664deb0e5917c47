"""The command `rlwatch`."""

from __future__ import annotations

import contextlib
import importlib.util
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from rlwatch._version import __version__

if TYPE_CHECKING:
    from rlwatch.readers import Options
    from rlwatch.runs.records import Alert
    from rlwatch.settings import Chooser

app = typer.Typer(
    help="Know within a few steps that an RL fine-tuning run has stopped learning, why, and what to change.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

alerts_app = typer.Typer(help="How alerts reach people.", no_args_is_help=True)
app.add_typer(alerts_app, name="alerts")

RUNS = Path("runs")
SettingsOption = Annotated[
    Path | None,
    typer.Option("--settings", help="The rlwatch.toml; by default one beside the run or in the working directory."),
]
NoSendOption = Annotated[
    bool, typer.Option("--no-send", help="When following: only print alerts, send them through no channel.")
]
RunsArgument = Annotated[Path, typer.Argument(metavar="[RUNS]", help="The folder that holds run directories.")]


def main() -> None:
    """Run the command line."""
    app()


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        print(f"rlwatch {__version__}")
        raise typer.Exit


@app.command()
def runs(root: RunsArgument = RUNS) -> None:
    """What is there: each run, how it is, and what was skipped."""
    from rlwatch.report.table import runs_table
    from rlwatch.runs.reader import list_runs

    found, skipped = list_runs(root)
    if not found:
        print(f"No runs in {root}. Add RLWatchCallback() to a trainer's callbacks, or try: rlwatch lab failure-room")
    _console().print(runs_table(found, skipped))


@app.command()
def analyze(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Logs, run directories, folders, patterns; - is standard input."),
    ],
    format: Annotated[str, typer.Option(help="text, json or html (one file that opens offline).")] = "text",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the report to this file.")] = None,
    fail_on: Annotated[
        str, typer.Option(help="Exit with 1 if anything was as bad: info, warning or critical.")
    ] = "critical",
    since_step: Annotated[int, typer.Option(help="Tell nothing of earlier steps.", min=0)] = 0,
    every: Annotated[
        int | None, typer.Option(help="Steps from one row to the next, if the rows carry no step.", min=1)
    ] = None,
    sets: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="correct=COLUMN: which completions of a dump are correct, a column or column>0.5. RULE.SETTING=VALUE: "
            "judge with this setting; rlwatch settings lists them. Repeatable.",
        ),
    ] = [],  # noqa: B006
    settings: SettingsOption = None,
    gpu_hour_price: Annotated[float | None, typer.Option(help="To say in money what was wasted.", min=0)] = None,
    gpus: Annotated[int, typer.Option(help="GPUs that the run used.", min=1)] = 1,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with a growing log, and alert live; end with Ctrl-C.")
    ] = False,
    no_send: NoSendOption = False,
) -> None:
    """Read any log and say what happened, when it began, why, and what the log cannot show.

    Exit code: 0 if nothing at or above --fail-on was found, 1 if something was, 2 if a path could not be read.
    """
    from rlwatch.report.analyze_command import FORMATS, exit_code, read_and_judge, write
    from rlwatch.runs.records import Severity

    if format not in FORMATS:
        raise _wrong(f"--format {format}: there is {', '.join(FORMATS)}")
    if fail_on not in [severity.value for severity in Severity]:
        raise _wrong(f"--fail-on {fail_on}: there is info, warning and critical")
    options = _options(every, sets)
    chooser = _chooser(settings, sets)
    if follow:
        if len(paths) != 1:
            raise _wrong("--follow takes one file")
        _follow(paths[0], options, into=None, send=not no_send, chooser=chooser)
        return
    try:
        analyses, unreadable = read_and_judge(paths, options, since_step, Console(stderr=True), chooser)
    except ValueError as error:
        raise _wrong(str(error)) from None
    for hint in dict.fromkeys(hint for analysis in analyses for hint in analysis.settings.hints):
        print(f"rlwatch: {hint}?", file=sys.stderr)
    try:
        write(
            analyses,
            unreadable,
            format=format,
            output=output,
            console=_console(),
            gpu_hour_price=gpu_hour_price,
            gpus=gpus,
        )
    except ImportError as error:
        raise _missing("dashboard", error) from None
    except OSError as error:
        raise _wrong(f"{output}: {error.strerror}") from None
    raise typer.Exit(exit_code(analyses, unreadable, Severity(fail_on)))


@app.command()
def compare(
    paths: Annotated[list[str], typer.Argument(metavar="RUN...", help="Logs, run directories, folders, patterns.")],
    by: Annotated[
        list[str], typer.Option(help="What tells the groups apart: a setting, name, or NAME=PATTERN; repeatable.")
    ] = [],  # noqa: B006
    format: Annotated[str, typer.Option(help="text, json or html.")] = "text",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the report to this file.")] = None,
    every: Annotated[
        int | None, typer.Option(help="Steps from one row to the next, if the rows carry no step.", min=1)
    ] = None,
) -> None:
    """Runs, or groups of runs by configuration, side by side, and whether so many seeds can show the difference."""
    from rlwatch.report.compare_command import run_compare

    try:
        code = run_compare(paths, by, format, output, options=_options(every, []), console=_console())
    except ImportError as error:
        raise _missing("dashboard", error) from None
    except OSError as error:
        raise _wrong(f"{output}: {error.strerror}") from None
    raise typer.Exit(code)


@app.command()
def audit(
    path: Annotated[
        Path, typer.Argument(help="A run directory, a trainer_state.json, or a YAML, JSON or TOML configuration.")
    ],
    format: Annotated[str, typer.Option(help="text, json or html (one file that opens offline).")] = "text",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the audit to this file.")] = None,
    fail_on: Annotated[
        str, typer.Option(help="Exit with 1 if a lint is as bad: never, info, warning or critical.")
    ] = "never",
    silence: Annotated[list[str], typer.Option(help="Leave out the lint of this name; repeatable.")] = [],  # noqa: B006
) -> None:
    """What a configuration divides by: who weighs what in the update, where, and what is unwise about it.

    Exit code: 0, 1 if a lint is at or above --fail-on, 2 if the path cannot be audited.
    """
    from rlwatch.report.audit_command import run_audit

    try:
        code = run_audit(path, format=format, output=output, fail_on=fail_on, silence=silence, console=_console())
    except ValueError as error:
        raise _wrong(str(error)) from None
    except OSError as error:
        raise _wrong(f"{output}: {error.strerror}") from None
    raise typer.Exit(code)


@app.command()
def follow(
    path: Annotated[Path, typer.Argument(help="A growing log of another framework.")],
    into: Annotated[Path, typer.Option(help="The folder of runs to keep it in, for the page.")] = RUNS,
    every: Annotated[
        int | None, typer.Option(help="Steps from one row to the next, if the rows carry no step.", min=1)
    ] = None,
    settings: SettingsOption = None,
    no_send: NoSendOption = False,
) -> None:
    """Watch a growing log of another framework: alerts here and sent, curves on the page; end with Ctrl-C."""
    _follow(str(path), _options(every, []), into, send=not no_send, chooser=_chooser(settings, []))


@app.command("settings")
def show_settings() -> None:
    """Print a rlwatch.toml with everything that can be set: every rule, its numbers, and where they come from."""
    from rlwatch.settings.template import template

    sys.stdout.write(template())


@alerts_app.command("test")
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
        configured = channels(settings=_chooser(settings, []).of(None).alerts)
    except ValueError as error:
        raise _wrong(str(error)) from None
    results = try_all([channel for channel in configured if channel.active])
    if wandb is not None:
        results.append(_try_wandb(wandb))
    if not results:
        raise _wrong(f"no channel is configured: set {WEBHOOKS[0]}, {COMMAND} or {APPRISE} in the environment")
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
        raise _missing("wandb", error) from None
    except Exception as error:
        return "wandb", f"no run could be started ({type(error).__name__})"
    return (f"{name} (offline, until it is synced)" if offline else name), problem


RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run directory, or the name of a run in runs/.")]
RuleArgument = Annotated[str, typer.Argument(metavar="RULE", help="The rule, such as dead-groups.")]
WhoOption = Annotated[str, typer.Option(help="Who says so, for the others who see the run.")]
UndoOption = Annotated[bool, typer.Option("--undo", help="Take it back.")]


@alerts_app.command("ack")
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


@alerts_app.command("silence")
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
        raise _wrong(str(error)) from None


@app.command()
def dashboard(
    roots: Annotated[
        list[Path], typer.Argument(metavar="[RUNS]", help="The folders that hold run directories; one or several.")
    ] = [RUNS],  # noqa: B006
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on.")] = 8050,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="RLWATCH_DASHBOARD_TOKEN",
            show_envvar=False,
            help="What a visitor has to have, in ?token=; better as RLWATCH_DASHBOARD_TOKEN in the environment. "
            "With a --host that others can reach, one is made where none is given.",
        ),
    ] = None,
    base_path: Annotated[
        str, typer.Option(metavar="PATH", help="What a proxy serves the page under, as /rlwatch.")
    ] = "",
) -> None:
    """The live page of all runs in a folder, or in several."""
    try:
        from rlwatch_dashboard import serve
    except ImportError as error:
        raise _missing("dashboard", error) from None
    names = ", ".join(map(str, roots))
    try:
        serve(
            roots,
            host=host,
            port=port,
            token=token or None,
            base_path=base_path,
            on_ready=lambda url: print(f"rlwatch: {names} on {url}", flush=True),
        )
    except (OSError, ValueError) as error:
        print(f"rlwatch: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


@app.command()
def lab(
    experiment: Annotated[str, typer.Argument(help="failure-room, length-bias, ...")] = "failure-room",
    seed: Annotated[int, typer.Option(help="Of the warm start and of the sampling; with --seeds the first.")] = 0,
    seeds: Annotated[int | None, typer.Option(help="Measure: run so many seeds and write a report.", min=1)] = None,
    steps: Annotated[int | None, typer.Option(help="Optimizer steps a run.", min=16)] = None,
    arms: Annotated[str | None, typer.Option(help="The arms to run, as in tight,wide.")] = None,
    jobs: Annotated[int, typer.Option(help="With --seeds: trainings at once; 0 is one a core.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="The folder of runs to write to.")] = RUNS,
    page: Annotated[bool, typer.Option("--dashboard", help="Have the live page open meanwhile.")] = False,
    keep_open: Annotated[bool, typer.Option("--keep-open", help="With the page: leave it open at the end.")] = False,
) -> None:
    """A failure, on purpose, on this CPU, watched by rlwatch."""
    from rlwatch.lab.experiments import find

    chosen = [name.strip() for name in (arms or "").split(",") if name.strip()]
    try:
        found = find(experiment)
        for arm in chosen:
            found.arm(arm)
    except ValueError as error:
        raise _wrong(str(error)) from None
    console = _console()
    failed = []
    with _page(out, console) if page or keep_open else contextlib.nullcontext():
        console.print("Loading torch and TRL ...")
        try:
            from rlwatch.lab import command

            if seeds is None:
                command.look(found, chosen, out, seed=seed, steps=steps or 0, console=console)
            else:
                numbers = range(seed, seed + seeds)
                failed = command.measure(
                    found, chosen, out, seeds=numbers, steps=steps or 0, workers=jobs, console=console
                )
        except ImportError as error:
            raise _missing("trl", error) from None
        if keep_open:
            console.print("\nThe page stays open; end it with Ctrl-C.")
            with contextlib.suppress(KeyboardInterrupt):
                threading.Event().wait()
    if failed:
        for one in failed:
            print(f"rlwatch: {one.job.name} failed: {one.why}", file=sys.stderr)
        raise _wrong(f"{len(failed)} of the trainings failed; the same command goes on with them")


def _options(every: int | None, settings: list[str]) -> Options:
    from rlwatch.readers import Options

    values = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        if (name != "correct" and "." not in name) or not value:
            there_is = "correct=COLUMN, correct=COLUMN>0.5, correct=COLUMN>=1 and RULE.SETTING=VALUE"
            raise _wrong(f"--set {setting}: there is {there_is}")
        if name == "correct":
            values[name] = value
    return Options(every=every, **values)


def _chooser(settings: Path | None, sets: list[str]) -> Chooser:
    from rlwatch.settings import Chooser

    pairs = [setting.partition("=") for setting in sets]
    try:
        return Chooser(settings, [(name, value) for name, _, value in pairs if name != "correct"])
    except ValueError as error:
        raise _wrong(str(error)) from None


def _follow(path: str, options: Options, into: Path | None, *, send: bool, chooser: Chooser) -> None:
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
        raise _wrong(str(error)) from None
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
        raise _wrong(f"could not read {path}: {error}") from None
    finally:
        rows += follower.finish()
    print(f"rlwatch: {rows} rows judged", flush=True)


def _wrong(message: str) -> typer.Exit:
    print(f"rlwatch: {message}", file=sys.stderr)
    return typer.Exit(2)


@contextlib.contextmanager
def _page(root: Path, console: Console) -> Iterator[None]:
    """The dashboard in a process of its own, so that it takes nothing from the training but a core."""
    if importlib.util.find_spec("dash") is None:
        raise _missing("dashboard", ImportError("no module named dash"))
    port = _free_port(preferred=8050)
    root.mkdir(parents=True, exist_ok=True)
    server = subprocess.Popen(
        [sys.executable, "-m", "rlwatch", "dashboard", str(root), "--port", str(port)], stdout=subprocess.DEVNULL
    )
    try:
        console.print(f"The live page: [bold]http://127.0.0.1:{port}[/]", highlight=False)
        yield
    finally:
        server.terminate()
        server.wait(timeout=10)


def _console() -> Console:
    """As wide as the terminal; where there is none, wide enough for a table."""
    console = Console()
    return console if console.is_terminal else Console(width=140)


def _free_port(preferred: int) -> int:
    for port in (preferred, 0):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)) as listener:
            return int(listener.getsockname()[1])
    raise OSError("no port is free on 127.0.0.1")


def _missing(extra: str, error: ImportError) -> typer.Exit:
    print(f"rlwatch: this needs an extra: pip install 'rlwatch-monitor[{extra}]' ({error})", file=sys.stderr)
    return typer.Exit(2)
