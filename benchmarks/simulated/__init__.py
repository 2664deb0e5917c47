"""Made-up runs whose story is known: what fails, from which step on, and what only looks like it.

A run is drawn group by group. At every optimizer step some prompts get a success rate from a Beta distribution around
the run's own curve, their completions succeed or not, and rewards, deviations and dead groups follow from that, so that
they agree with each other as they do in a log. A batch's difficulty wanders with an autocorrelation of 0.3 to 0.8, or
as real runs did around their trend (blocks of ten rows). A row that stands for several steps is their mean, except for
gradients, which are those of the last of them. Half of the runs log no KL. Evaluations come on a few rows only, the
split of the gradient on every 20th step, and a value that could not be known is absent.

The share of stuck groups, entropy, length and so on follow curves that are made up, and their noise is not all that
real logs have. What a rule does here shows what it can do at best. Labels were fixed before any rule was run on them.

    plan.py                  the curves of a run, and what is to be said of it
    noise.py                 where noise comes from
    events.py                from which row on a failure is a fact
    failures*.py, harmless*.py   the classes, a function each
    draw.py, further.py, clock.py   curves to numbers a step
    rows.py, loggers.py      numbers a step to what a log shows
    run.py                   all of that in one call
"""

from .draw import Groups
from .events import EVENT_ONLY, ONE_ROW, TWENTY_ROWS
from .loggers import LOGGERS
from .noise import Array, Noise, residual
from .plan import Kind, Plan, ramp
from .run import FAILURES, HARMLESS, KINDS, Simulated, simulate, simulate_all

__all__ = [
    "EVENT_ONLY",
    "FAILURES",
    "HARMLESS",
    "KINDS",
    "LOGGERS",
    "ONE_ROW",
    "TWENTY_ROWS",
    "Array",
    "Groups",
    "Kind",
    "Noise",
    "Plan",
    "Simulated",
    "ramp",
    "residual",
    "simulate",
    "simulate_all",
]
