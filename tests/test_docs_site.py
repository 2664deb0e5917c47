"""The site builds strictly, loads nothing from elsewhere, and every link of README and CONTRIBUTING leads somewhere."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="mkdocs-material is in the extra `dev`")

from doc_blocks import PAGES, ROOT

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
OUTSIDE = ("http://", "https://", "mailto:")


class _Loads(HTMLParser):
    """What a browser fetches by itself for a page, and the names that a link can lead to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in ("script", "img", "iframe", "source", "video"):
            self.loaded.append(given.get("src", ""))
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev", "edit"):
            self.loaded.append(given.get("href", ""))
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built in this process: the imports that the reference needs are there already. A warning ends it."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setattr(sys, "path", [*sys.path])
        folder = tmp_path_factory.mktemp("site")
        build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder


def test_every_page_is_there_and_filled_in(site: Path) -> None:
    for page in PAGES[2:]:
        inside = page.relative_to(ROOT / "docs").with_suffix("")
        built = site / ("index.html" if inside.name == "index" else f"{inside}/index.html")
        text = built.read_text(encoding="utf-8")
        assert "{{" not in text, f"{page}: something was not filled in"
        assert "--8&lt;--" not in text, f"{page}: an example was not put in"
    assert not list(site.rglob("*.py")), "the code that makes the pages is none of them"


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        foreign = [url for url in _Loads(page.read_text(encoding="utf-8")).loaded if url.startswith((*OUTSIDE, "//"))]
        assert not foreign, f"{page}: {foreign}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", style.read_text(encoding="utf-8")), style


@pytest.mark.parametrize("page", PAGES[:2], ids=lambda page: page.name)
def test_the_links_of_a_page_outside_the_site_lead_somewhere(page: Path, site: Path) -> None:
    """Links between pages of the site are mkdocs's own to check: it ends at a file or anchor that is not there."""
    links = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not link.startswith(OUTSIDE)]
    assert links
    for link in links:
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            inside = target.relative_to(ROOT / "docs").with_suffix("")
            html = (site / ("" if inside.name == "index" else inside) / "index.html").read_text(encoding="utf-8")
            assert anchor in _Loads(html).anchors, f"{page.name}: {link}"


def test_a_link_to_nowhere_ends_the_build(tmp_path: Path) -> None:
    from mkdocs.commands.build import build
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort

    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A\n\n[b](#nowhere)\n")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    validation = settings[settings.index("validation:") : settings.index("strict:")]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: a\n{validation}strict: true\n")
    with pytest.raises(Abort):
        build(load_config(str(tmp_path / "mkdocs.yml"), site_dir=str(tmp_path / "site")))


def test_the_readme_fits_two_screens() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 105
