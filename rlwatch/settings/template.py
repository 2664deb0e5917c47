"""`rlwatch settings`: a file of settings in which everything stands that can be set, switched off by a `#`."""

from __future__ import annotations

import inspect
import math
import textwrap

from rlwatch.detect.rule import Rule
from rlwatch.detect.rules import RULES
from rlwatch.detect.setting import Setting, settings_of

WIDTH = 110

_HEAD = """\
# rlwatch.toml: beside the runs, in the working directory, or named by --settings and settings="...".
# A line that begins with "#" and a letter is how it is anyway: take the # away to change it.
"""

_ALERTS = """\

[lints]
# A remark on the configuration that you know of and do not want to see again; `rlwatch audit` has their names.
#near-ties = false

[alerts]
# What is sent, "info", "warning" or "critical" and worse, instead of what each channel sends by itself.
#min_severity = "warning"
# After how long one is told again of the same.
#repeat = "1h"
# Where `rlwatch dashboard` can be reached, for links in messages.
#page_url = "http://gpu-box:8050"
# Whether alerts go through the wandb run that is active.
#wandb = true

[alerts.slack]
# The name of the environment variable that holds the webhook.
#webhook_env = "RLWATCH_SLACK_WEBHOOK"

[alerts.command]
# Run for each message, with the alert as JSON on its standard input.
#run = ["notify", "--json"]

[alerts.apprise]
# The name of the environment variable that holds URLs of apprise's.
#urls_env = "RLWATCH_APPRISE_URLS"

# A rule of your own. Of the means over the last `over` optimizer steps and over as many before: "above" and "below"
# look at the newer one, "rises" and "falls" at the change, which may be a share as in "50%".
#[[rule]]
#name = "kl-too-high"
#metric = "kl/ref"
#when = "above"
#value = 0.5
#over = 20
#severity = "warning"
#message = "KL is {value:.3g}, above {reference:.3g}"
#advice = "lower the learning rate"
"""


def template() -> str:
    """The text. It loads as it is, and changes nothing."""
    return _HEAD + "".join(_section(rule) for rule in RULES) + _ALERTS


def _section(rule: type[Rule]) -> str:
    said = inspect.cleandoc(rule.__doc__ or "").partition("\n\n")[0]
    lines = ["", f"[rules.{rule.name}]", *_comment(said)]
    lines += ["#enabled = true", '#at_most = "critical"']
    for name, setting in settings_of(rule).items():
        lines += [*_comment(_about(setting)), f"#{name} = {number(setting.default)}"]
    return "\n".join(lines) + "\n"


def _about(setting: Setting) -> str:
    source = " ".join(setting.source.split())
    return f"{setting.unit}; from: {source}" if source else setting.unit


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()), WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False
    )


def number(value: float) -> str:
    """A number as TOML has it: exactly this one.

    >>> number(20.0), number(0.1), number(1e-09), number(float("inf"))
    ('20', '0.1', '1e-09', 'inf')
    """
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return repr(value)
