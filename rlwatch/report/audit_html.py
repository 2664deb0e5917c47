"""An audit as one HTML file that opens anywhere and asks nobody for anything."""

from __future__ import annotations

from html import escape

from rlwatch._version import __version__
from rlwatch.audit import Audit
from rlwatch.report.audit_measured import FAMILIES, Measured
from rlwatch.report.audit_sentences import formula, headline, how_to_read, setup, size_sentence
from rlwatch.report.colours import SEVERITY_FILLS, TEAL

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The browser's orders: nothing from anywhere, no script at all."""

STYLE = f"""
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }}
h1 {{ font-size: 1.3rem }} h2 {{ font-size: 1.1rem; margin-top: 2rem }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums }} .wide {{ overflow-x: auto }}
th, td {{ padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top }}
th {{ font-weight: 500; opacity: .7 }} td.n, th.n {{ text-align: right }}
code {{ font-size: .85em; opacity: .85 }} .dim {{ opacity: .7 }}
.bar {{ display: inline-block; height: .7rem; background: {TEAL}; border-radius: 2px }}
.pill {{ color: #fff; border-radius: 4px; padding: .05rem .45rem; font-size: .8rem }}
li {{ margin-bottom: .8rem }}
"""


def audit_html(found: Audit | None, seen: Measured = Measured()) -> str:  # noqa: B008  # it is frozen
    """The whole page: who weighs what, where it divides, what to look at, and what the run itself shows."""
    if found is None:
        return _page("What the updates of a run were made of", [_measured(seen)])
    title = headline(found)
    notes = "".join(f'<p class="dim">{escape(note)}</p>' for note in found.config.notes)
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in found.example.contrasts.values())
    said += f"<li>Predicted: {escape(found.drift.sentence)}.</li>" if found.drift else ""
    silenced = (
        f'<p class="dim">silenced: {escape(", ".join(x.name for x in found.silenced))}</p>' if found.silenced else ""
    )
    parts = [
        f'<h1>{escape(title)}</h1><p>{escape(formula(found))}</p><p class="dim">{escape(setup(found))}</p>{notes}',
        f"<h2>Who weighs what</h2><p>{escape(how_to_read(found))}</p>{_weights(found)}<ul>{said}</ul>"
        f'<p class="dim">{escape(size_sentence(found))}</p>',
        f"<h2>Where it divides</h2><ol>{_places(found)}</ol>",
        f"<h2>What to look at{'' if found.lints else ': nothing'}</h2><ul>{_lints(found)}</ul>{silenced}",
        _measured(seen),
    ]
    return _page(title, parts)


def _page(title: str, parts: list[str]) -> str:
    parts = [*parts, f'<p class="dim">rlwatch {escape(__version__)}</p>']
    if not parts[0].startswith("<h1>"):
        parts.insert(0, f"<h1>{escape(title)}</h1>")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><style>{STYLE}</style></head><body>'
        + "\n".join(parts)
        + "</body></html>\n"
    )


def _measured(seen: Measured) -> str:
    parts = []
    for weighed in seen.weighed:
        rows = "".join(
            f'<tr><td>{escape(words)}</td><td class="n">{"" if of is None else f"{of:.0%}"}</td>'
            f'<td class="n">{share:.0%}</td><td><span class="bar" style="width:{12 * share:.2f}rem"></span></td></tr>'
            for words, (share, of) in weighed.shares.items()
        )
        parts.append(
            f"<h2>What the updates were made of</h2><p>{escape(weighed.sentence)}</p>"
            f'<p class="dim">{escape(FAMILIES[weighed.family])}, over {weighed.steps} steps</p>'
            '<div class="wide"><table><tr><th>of the completions</th><th class="n">a share of</th>'
            f'<th class="n">of the update</th><th></th></tr>{rows}</table></div>'
        )
    if seen.drift is not None:
        parts.append(f"<p>In its first steps {escape(seen.drift.sentence)}.</p>")
    if seen.otherwise:
        rows = "".join(
            f'<tr><td>{escape(o.words)}</td><td class="n">{"none" if o.cosine is None else f"{o.cosine:.3f}"}</td>'
            f'<td class="n">×{o.ratio:.3g}</td><td class="n">{o.steps}</td><td>{o.verdict}</td></tr>'
            for o in seen.otherwise
        )
        parts.append(
            "<h2>What another decision would have made of the same batches</h2>"
            f'<p class="dim">{escape(seen.part or "gradients")}; the cosine is to the update that was</p>'
            '<div class="wide"><table><tr><th>instead</th><th class="n">cosine</th><th class="n">size</th>'
            f'<th class="n">steps</th><th>so</th></tr>{rows}</table></div>'
        )
    return "".join(parts)


def _weights(found: Audit) -> str:
    policy = found.config.is_policy
    names = ["prompt", "answer"] if policy else ["place", "example"]
    numbers = ["how many", "tokens", *(["advantage"] if policy else []), "a token", "one of them", "all of them"]
    head = "".join(f"<th>{name}</th>" for name in names) + "".join(f'<th class="n">{name}</th>' for name in numbers)
    rows, before = [], ""
    for kind in found.example.kinds:
        advantage = [f"{kind.advantage:+.2f}"] if policy else []
        cells = [
            str(kind.count), str(kind.tokens), *advantage, f"×{kind.token:.2f}", f"{100 * kind.one:.1f} %",
            f"{100 * kind.share:.1f} %",
        ]  # fmt: skip
        rows.append(
            f"<tr><td>{escape(kind.prompt) if kind.prompt != before else ''}</td><td>{escape(kind.answer)}</td>"
            + "".join(f'<td class="n">{cell}</td>' for cell in cells)
            + f'<td><span class="bar" style="width:{12 * kind.share:.2f}rem"></span></td></tr>'
        )
        before = kind.prompt
    return f'<div class="wide"><table><tr>{head}<th></th></tr>{"".join(rows)}</table></div>'


def _places(found: Audit) -> str:
    parts = []
    for place in found.places:
        effect = ", ".join(f"{name} ×{value:.2f}" for name, value in place.effect.items())
        against = f"<br>Argued against: {escape(', '.join(place.against))}" if place.against else ""
        parts.append(
            f"<li><b>{escape(place.name)}</b> · {escape(place.maths)} · <code>{escape(place.code)}</code>"
            f"<br>{escape(place.sentence)}{against}"
            f'<br><span class="dim">a token here: {effect}; '
            f"set by {escape(place.setting)} = {escape(place.value)}</span></li>"
        )
    return "".join(parts)


def _lints(found: Audit) -> str:
    return "".join(
        f'<li><span class="pill" style="background:{SEVERITY_FILLS[lint.severity.value]}">{lint.severity.value}</span> '
        f"<b>{escape(lint.name)}</b> {escape(lint.message)}<br>{escape(lint.why)} "
        f'<span class="dim">[{escape(lint.source)}]</span><br>'
        f'<span class="dim">{escape(lint.setting)}:</span> {escape(lint.advice)}</li>'
        for lint in found.lints
    )
