"""Takes the pictures in docs/img from real runs: the ones that `make demo` leaves in runs/.

python docs/screenshots.py [RUNS]
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from rlwatch_dashboard import run_in_background

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
IMAGES = Path(__file__).parent / "img"
RUN = "failure-room-collapsing"

# name → address, width, height, light or dark
SHOTS = {
    "run": (f"run/{RUN}", 1440, 960, "light"),
    "run-dark": (f"run/{RUN}", 1440, 960, "dark"),
    "run-phone": (f"run/{RUN}", 390, 1600, "light"),
    "runs": ("", 1440, 420, "light"),
    "completions": (f"run/{RUN}/completions?kind=stuck", 1440, 960, "light"),
    "denominators": (f"run/{RUN}/denominators", 1440, 1200, "light"),
}


def main() -> None:
    """Take them all; a run that is missing is an error that says what to do."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "runs")
    if not (root / RUN).is_dir():
        sys.exit(f"there is no {RUN} in {root}: `make demo` makes it")
    IMAGES.mkdir(exist_ok=True)
    with run_in_background(root) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name, (address, width, height, scheme) in SHOTS.items():
            context = browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme, bypass_csp=True
            )
            page = context.new_page()
            page.goto(url + address)
            if "/completions" in address or "/denominators" in address:
                page.locator("main table").first.wait_for()
                page.wait_for_load_state("networkidle")  # charts are drawn once their library has come
            elif address:
                page.wait_for_function("document.querySelectorAll('.annotation-text').length > 0")
            else:
                page.get_by_role("link", name=RUN).first.wait_for()
            page.screenshot(path=IMAGES / f"{name}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
