"""Takes the pictures in docs/img from real runs: the ones that `make demo` leaves in runs/.

python docs/screenshots.py [RUNS]
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

from rlwatch.runs.reader import read_alerts
from rlwatch.runs.records import AlertState
from rlwatch_dashboard import addresses, run_in_background

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
IMAGES = Path(__file__).parent / "img"
RUN = "failure-room-tight"

# name → address, width, height, light or dark
SHOTS = {
    "run": (f"run/{RUN}", 1440, 960, "light"),
    "run-dark": (f"run/{RUN}", 1440, 960, "dark"),
    "run-phone": (f"run/{RUN}", 390, 1600, "light"),
    "runs": ("", 1440, 420, "light"),
    "completions": (f"run/{RUN}/completions?kind=stuck", 1440, 960, "light"),
    "denominators": (f"run/{RUN}/denominators", 1440, 1200, "light"),
    "alert": ("", 1440, 1100, "light"),  # the run's first alert: where it is depends on the run
    "compare": ("compare?{all}", 1440, 1400, "light"),
    "compare-phone": ("compare?{all}", 390, 1600, "dark"),
}


# When a picture can be taken. Flags stand over a chart only where there is room; a chart out of view has no marks.
READY = """(name) => {
  const there = (selector, count = 1) => document.querySelectorAll(selector).length >= count;
  const drawn = (count) => there(".main-svg .scatterlayer .trace", count);
  if (name.startsWith("runs")) return there("main a") && !there("._dash-loading");
  if (name === "run-phone") return drawn(4);
  if (name.startsWith("run")) return drawn(4) && there(".main-svg .shapelayer path");
  if (name.startsWith("compare")) return drawn(8);
  return name === "alert" ? drawn(1) : there("main table");
}"""


def every_run(root: Path) -> str:
    """All runs of the folder, as the address of the comparison names them."""
    return urlencode([("run", folder.name) for folder in sorted(root.iterdir()) if (folder / "run.json").is_file()])


def alert_address(root: Path) -> str:
    """The first alert of the run, by its rule and the step at which it began."""
    first = next(change for change in read_alerts(root / RUN).items if change.state is AlertState.FIRING)
    return addresses.alert(RUN, first.rule, first.since).lstrip("/")


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
            page.goto(url + (alert_address(root) if name == "alert" else address.format(all=every_run(root))))
            page.locator("#first").wait_for(state="detached")  # what is there before the scripts are
            page.locator("main h1").wait_for()
            page.wait_for_function(READY, arg=name, polling=100)
            page.wait_for_load_state("networkidle")
            page.screenshot(path=IMAGES / f"{name}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
