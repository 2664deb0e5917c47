"""What was found in a run, in sentences that the text and the HTML report share."""

from __future__ import annotations

from rlwatch.report.analysis import Analysis
from rlwatch.report.waste import Waste
from rlwatch.report.words import TOO_EARLY
from rlwatch.runs.records import Alert, AlertState, Severity

VERDICT_WORDS = {
    "failed": "Failed",
    "degraded": "Degraded",
    "at-risk": "At risk",
    "healthy": "Healthy",
    "insufficient": "Too little to say",
}
"""Each verdict as a person says it."""

TONES = {
    "failed": "critical",
    "degraded": "warning",
    "at-risk": "warning",
    "healthy": "good",
    "insufficient": "unknown",
}
"""The tone of each verdict, as in [`Headline`][rlwatch.report.words.Headline]."""


def verdict_sentence(analysis: Analysis) -> str:
    """The verdict, with the step and the number that it rests on: one sentence."""
    said = {
        "failed": _failed,
        "degraded": _degraded,
        "at-risk": _at_risk,
        "healthy": _healthy,
        "insufficient": _insufficient,
    }[analysis.verdict](analysis)
    return f"{VERDICT_WORDS[analysis.verdict]}: {said}."


def span(analysis: Analysis) -> str:
    """Which steps were read, and how many rows they are where that is not the same."""
    records = analysis.run.records
    if not records:
        return "no step"
    steps = f"steps {records[0].step:,} to {records[-1].step:,}" if len(records) > 1 else f"step {records[0].step:,}"
    return steps if len(records) == step_count(analysis) else f"{steps} in {counted(len(records), 'row')}"


def waste_sentence(waste: Waste | None, price: float | None = None, gpus: int = 1) -> str | None:
    """What went into groups that taught nothing, in tokens, time and money as far as known; None where nothing is.

    Args:
        waste: See [`Waste`][rlwatch.report.waste.Waste].
        price: Of an hour of one GPU, in any currency; None leaves the money out.
        gpus: How many GPUs the run had.
    """
    if waste is None:
        return None
    if waste.share <= 0:
        of = "groups" if waste.by_groups else "generated tokens"
        return f"None of the {of} were lost to groups in which all completions earned the same."
    amounts = [] if waste.tokens is None else [f"about {_amount(waste.tokens)} tokens"]
    if waste.generation_seconds is not None:
        amounts.append(f"{duration(waste.generation_seconds)} of generating")
    elif waste.seconds is not None:
        amounts.append(f"{duration(waste.seconds)} of training, if time goes by that share")
    money = None if price is None else waste.money(price, gpus)
    if money is not None:
        amounts.append(f"worth {money:,.2f} at {price:,.2f} per GPU hour on {counted(gpus, 'GPU')}")
    more = f": {', '.join(amounts)}" if amounts else ""
    if waste.by_groups:
        return f"In {percent(waste.share)} of the groups all completions earned the same: they taught nothing{more}."
    where = "groups in which all completions earned the same, and taught nothing"
    return f"{percent(waste.share)} of the generated tokens went into {where}{more}."


def first_critical(analysis: Analysis) -> int | None:
    """The step at which the run was first told to have stopped learning; None where it never was."""
    told = (c.step for c in analysis.changes if c.severity is Severity.CRITICAL and c.state is AlertState.FIRING)
    return min(told, default=None)


def step_count(analysis: Analysis) -> int:
    """Steps from the first to the last, both included."""
    records = analysis.run.records
    return records[-1].step - records[0].step + 1 if records else 0


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """A share as per cent; one that is not nothing is never shown as nothing.

    >>> percent(0.384), percent(0.004), percent(0.00001), percent(0)
    ('38 %', '0.4 %', 'less than 0.1 %', '0 %')
    """
    if 0 < share < 0.0005:
        return "less than 0.1 %"
    return f"{100 * share:.1f} %" if 0 < share < 0.095 else f"{100 * share:.0f} %"


def duration(seconds: float) -> str:
    """A time in the largest unit that fits.

    >>> duration(42), duration(300), duration(9000)
    ('42 s', '5.0 min', '2.5 h')
    """
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.0f} s"


def _failed(analysis: Analysis) -> str:
    worst, *others = _open(analysis)
    return f"not learning since step {worst.since:,} {_why(worst)}{_more(others)}"


def _degraded(analysis: Analysis) -> str:
    still = _open(analysis)
    last = max(
        (a for a in analysis.alerts if a.severity is Severity.CRITICAL and a.state is AlertState.RESOLVED),
        key=lambda alert: alert.resolved_step or alert.step,
    )
    over = f"not learning from step {last.since:,} to step {last.resolved_step or last.step:,} {_why(last)}"
    if not still:
        return f"{over}, and recovered"
    return f"{over}; {still[0].rule} is still open since step {still[0].since:,}: {_message(still[0])}"


def _at_risk(analysis: Analysis) -> str:
    worst, *others = _open(analysis)
    return f"since step {worst.since:,} {_why(worst)}{_more(others)}"


def _healthy(analysis: Analysis) -> str:
    steps = counted(step_count(analysis), "step")
    unchecked = len(analysis.unchecked)
    more = f"; {counted(unchecked, 'rule')} could not be checked" if unchecked else ""
    over = [alert for alert in analysis.alerts if alert.severity is not Severity.INFO]
    if over:  # a warning that is resolved
        last = max(over, key=lambda alert: alert.resolved_step or alert.step)
        return f"no alert is open after {steps}, {last.rule} was over at step {last.resolved_step or last.step:,}{more}"
    if analysis.alerts:
        return f"nothing is wrong in {steps}, but {_message(analysis.alerts[0])}{more}"
    return f"no rule has fired in {steps}{more}"


def _insufficient(analysis: Analysis) -> str:
    steps, unchecked = step_count(analysis), len(analysis.unchecked)
    if not steps:
        return "there is no step in it"
    if steps < TOO_EARLY:
        return f"{counted(steps, 'step')}, and no rule can judge fewer than {TOO_EARLY}"
    return f"{unchecked} of {analysis.rules} rules could not be checked in {counted(steps, 'step')}"


def _open(analysis: Analysis) -> list[Alert]:
    return [a for a in analysis.alerts if a.state is AlertState.FIRING and a.severity is not Severity.INFO]


def _why(alert: Alert) -> str:
    return f"({alert.rule}: {_message(alert)})"


def _message(alert: Alert) -> str:
    return " ".join(alert.message.split()).rstrip(".")


def _more(others: list[Alert]) -> str:
    if not others:
        return ""
    return f"; {counted(len(others), 'more alert')} {'is' if len(others) == 1 else 'are'} open"


def _amount(number: float) -> str:
    for word, size in (("billion", 1e9), ("million", 1e6)):
        if number >= size:
            return f"{number / size:.1f} {word}"
    return f"{number:,.0f}"
