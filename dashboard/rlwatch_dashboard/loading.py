"""How a page comes into the browser: its first content at once, and the scripts behind it.

The head is sent before a run is read, so that the browser fetches scripts and styles meanwhile. Then comes what the
page shows, as plain HTML, and the scripts are started after it was drawn. Only those that the page needs are: others
come when another page of the site is gone to (assets/first.js).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from dash.fingerprint import build_fingerprint

MARK = "<!--first-->"
"""Where the first content goes."""

NEVER = ("/dash_table/",)
"""Scripts of Dash for what no page has."""

SOONEST = "/times.js"
"""The script that writes the times of the first content, which has none of its own."""

PARTS = {"dash_ag_grid": "/dash_ag_grid/", "dash_mantine_components": "/dash_mantine_components/"}
"""Components that only some pages have: as their answers name them, and as their scripts' addresses do."""

PLOTLY = "plotly"
"""The part that is no component: Plotly, and Dash's charts."""

LATE = {
    "dash_ag_grid": (("dash_ag_grid", "async-community.js"),),
    PLOTLY: (("plotly", "package_data/plotly.min.js"), ("dash", "dcc/async-graph.js")),
}
"""Files of packages that Dash would ask for only when it comes to what is made of them."""

LOADER = """
const parts = %PARTS%;
const load = (src) => new Promise((done) => {
  const script = Object.assign(document.createElement("script"), { src, async: false, onload: done, onerror: done });
  document.body.append(script);
});
const asked = {};
window.rlwatchPart = (name) => (asked[name] = asked[name] || Promise.all((parts[name] || []).map(load)));
let isBegun = false;
function begin() {
  if (isBegun) return;
  isBegun = true;
  Promise.all(%NOW%.map(load)).then(() => { window.renderer = new DashRenderer(); });
  for (const name of %NEEDED%) window.rlwatchPart(name);
}
if (document.hidden || !document.getElementById("first")) begin();
else requestAnimationFrame(() => setTimeout(begin)); /* after what is there was drawn */
setTimeout(begin, 2000); /* a page that went to the background is not drawn */
"""

_SUITES = "/_dash-component-suites/"
_SCRIPT = re.compile(r'\s*<script src="([^"]+)"></script>')
_RENDERER = re.compile(r'<script id="_dash-renderer"[^>]*>.*?</script>', re.DOTALL)


@dataclass(frozen=True)
class Scripts:
    """A site's scripts.

    Args:
        always: Those of every page, in the order in which they run.
        parts: Those of parts that only some pages have, by the name of the part.
    """

    always: tuple[str, ...]
    parts: dict[str, list[str]]


def taken_out(page: str) -> tuple[str, Scripts]:
    """Dash's page without its scripts, and those."""
    found = _SCRIPT.findall(page)
    parts = {name: [src for src in found if place in src] for name, place in PARTS.items()}
    apart = (*NEVER, *PARTS.values())
    always = [src for src in found if not any(place in src for place in apart)]
    before = next(src for src in found if _SUITES in src).partition(_SUITES)[0]
    for name, files in LATE.items():
        parts[name] = [*parts.get(name, []), *(_address(before, *file) for file in files)]
    always.sort(key=lambda src: SOONEST not in src)
    return _RENDERER.sub("", _SCRIPT.sub("", page)), Scripts(tuple(always), parts)


@lru_cache(maxsize=32)
def _address(before: str, package: str, path: str) -> str:
    """Where Dash serves a package's file, under a name that is another one for each version: a browser keeps it."""
    module = import_module(package)
    changed = int((Path(str(module.__file__)).parent / path).stat().st_mtime)
    return f"{before}{_SUITES}{package}/{build_fingerprint(path, module.__version__, changed)}"


def early(scripts: Scripts, needed: Sequence[str]) -> str:
    """What has the browser fetch the page's large scripts before it comes to them.

    It is no `preload`: of one that is not run within seconds, as on a machine that has much to do, browsers complain.
    """
    sources = [*scripts.always, *(src for name in needed for src in scripts.parts[name])]
    return "".join(f'<link rel="prefetch" as="script" href="{src}">' for src in sources if _SUITES in src)


def loader(scripts: Scripts, needed: Sequence[str]) -> str:
    """The script that starts them."""
    filled = {"NOW": scripts.always, "PARTS": scripts.parts, "NEEDED": needed}
    text = LOADER
    for name, value in filled.items():
        text = text.replace(f"%{name}%", json.dumps(value).replace("<", "\\u003c"))
    return f'<script id="_dash-renderer">{{{text}}}</script>'


def as_data(name: str, text: str) -> str:
    """JSON that a script of the page reads; it cannot end the element that it is in.

    >>> as_data("x", '{"a":"</script>"}')
    '<script type="application/json" data-first="x">{"a":"\\\\u003c/script>"}</script>'
    """
    return f'<script type="application/json" data-first="{name}">{text.replace("<", chr(92) + "u003c")}</script>'


def streamed(page: str, scripts: Scripts, needed: Sequence[str], first: Iterator[str]) -> Iterator[str]:
    """The page in pieces: its head and its bar, then what `first` gives, then the rest."""
    before, after = page.split(MARK)
    yield before.replace("</head>", f"{early(scripts, needed)}</head>")
    yield from first
    ending = loader(scripts, needed)
    yield after.replace("</footer>", f"{ending}</footer>")
