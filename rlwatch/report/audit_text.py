"""An audit, for a person at a terminal who has not read the papers."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rlwatch.audit import Audit
from rlwatch.audit.example import Kind
from rlwatch.audit.lints import Lint
from rlwatch.audit.places import Place
from rlwatch.report.audit_measured import FAMILIES, Measured
from rlwatch.report.audit_sentences import formula, headline, how_to_read, setup, size_sentence
from rlwatch.report.colours import SEVERITY_STYLES


def audit_report(found: Audit, seen: Measured = Measured()) -> RenderableType:  # noqa: B008  # it is frozen
    """Who weighs what, where something is divided, what is unwise, and what the run itself shows."""
    parts: list[RenderableType] = [
        Text(headline(found), style="bold"),
        Text(formula(found)),
        Text(setup(found), "dim"),
        *(Text(note, "dim") for note in found.config.notes),
        _heading("Who weighs what"),
        _indented(Text(how_to_read(found))),
        _weights(found.example.kinds, rewards=found.config.is_policy),
        *(_indented(Text(f"• {said}")) for said in found.example.contrasts.values()),
        *([_indented(Text(f"• Predicted: {found.drift.sentence}."))] if found.drift else []),
        _indented(Text(size_sentence(found), "dim")),
        _heading("Where it divides"),
        *(_place(place, number) for number, place in enumerate(found.places, 1)),
        _heading("What to look at" if found.lints else "What to look at: nothing"),
        *(_lint(lint) for lint in found.lints),
    ]
    if found.silenced:
        parts.append(_indented(Text(f"silenced: {', '.join(lint.name for lint in found.silenced)}", "dim")))
    return Group(*parts, *measured_report(seen))


def measured_report(seen: Measured) -> list[RenderableType]:
    """What the updates of a run were made of, and what other decisions would have made of them."""
    parts: list[RenderableType] = []
    for weighed in seen.weighed:
        parts += [
            _heading("What the updates were made of"),
            _indented(Text(f"{FAMILIES[weighed.family]}, over {weighed.steps} steps", "dim")),
        ]
        if weighed.sentence:
            parts.append(_indented(Text(weighed.sentence)))
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("  of the completions")
        for name in ("a share of", "of the update"):
            table.add_column(name, justify="right")
        table.add_column("")
        for words, (share, of_completions) in weighed.shares.items():
            of = f"{of_completions:.0%}" if of_completions is not None else ""
            table.add_row(f"  {words}", of, f"{share:.0%}", Text("█" * round(40 * share), "cyan"))
        parts.append(table)
    if seen.drift is not None:
        parts.append(_indented(Text(f"In its first steps {seen.drift.sentence}.")))
    if seen.otherwise:
        parts += [
            _heading("What another decision would have made of the same batches"),
            _indented(Text(f"{seen.part or 'gradients'}; the cosine is to the update that was", "dim")),
        ]
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("  instead", overflow="fold")
        for name in ("cosine", "size", "steps"):
            table.add_column(name, justify="right")
        table.add_column("so")
        for other in seen.otherwise:
            cosine = f"{other.cosine:.3f}" if other.cosine is not None else "none"
            table.add_row(f"  {other.words}", cosine, f"×{other.ratio:.3g}", str(other.steps), other.verdict)
        parts.append(table)
    return parts


def _heading(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _indented(part: RenderableType) -> RenderableType:
    return Padding(part, (0, 0, 0, 2))


def _weights(kinds: tuple[Kind, ...], *, rewards: bool) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("  " + ("prompt" if rewards else "place"), no_wrap=True)
    table.add_column("answer" if rewards else "example", no_wrap=True)
    table.add_column("how many", justify="right", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    if rewards:
        table.add_column("advantage", justify="right", no_wrap=True)
    table.add_column("a token", justify="right", no_wrap=True)
    table.add_column("one of them", justify="right", no_wrap=True)
    table.add_column("all of them", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    before = ""
    for kind in kinds:
        advantage = [f"{kind.advantage:+.2f}" if abs(kind.advantage) > 5e-3 else "0"] if rewards else []
        table.add_row(
            f"  {kind.prompt if kind.prompt != before else ''}",
            kind.answer,
            str(kind.count),
            str(kind.tokens),
            *advantage,
            f"×{kind.token:.2f}",
            f"{100 * kind.one:.1f} %",
            f"{100 * kind.share:.1f} %",
            Text("█" * round(40 * kind.share), "cyan"),
        )
        before = kind.prompt
    return table


def _place(place: Place, number: int) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    against = f"  [yellow]against it: {escape(', '.join(place.against))}[/]" if place.against else ""
    table.add_row(f"  {number}.", f"[bold]{escape(place.name)}[/]  {escape(place.maths)}  [dim]{escape(place.code)}[/]")
    table.add_row("", escape(place.sentence))
    effect = place.effect
    moved = {name: value for name, value in effect.items() if abs(value - 1) > 5e-3}
    numbers = ", ".join(f"{name} ×{value:.2f}" for name, value in moved.items())
    said = f"a token here: {numbers}; " if numbers else ""
    table.add_row("", f"[dim]{said}set by {escape(place.setting)} = {escape(place.value)}[/]{against}")
    return table


def _lint(lint: Lint) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(
        Text(f"  {lint.severity.value}", SEVERITY_STYLES[lint.severity.value]),
        f"[bold]{lint.name}[/]  {escape(lint.message)}",
    )
    table.add_row("", f"{escape(lint.why)} [dim]\\[{escape(lint.source)}][/]")
    table.add_row("", f"[dim]{escape(lint.setting)}:[/] {escape(lint.advice)}")
    return table
