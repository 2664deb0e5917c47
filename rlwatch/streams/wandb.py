"""Mirrors the metrics into the wandb run that is active, if there is one, without disturbing it.

Never `step=`, never `init`, never `finish`. Metrics are laid into the row that the run itself commits next
(`commit=False`), so that with a row a step, as with TRL's `logging_steps=1`, there is not one row more than without
rlwatch. Only where nobody has committed a row since the last step does rlwatch commit its own, for else the next step's
values would overwrite these: with `logging_steps=10`, nine rows of ten are rlwatch's. `rlwatch/step` is the x-axis.
"""

from __future__ import annotations

import sys
from typing import Any

from rlwatch.runs.records import StepRecord


def active_run() -> Any:
    """wandb's active run, if the user's program has imported wandb and has one; else None."""
    return getattr(sys.modules.get("wandb"), "run", None)


class WandbStream:
    """Sends step records to whatever wandb run is active; does nothing while none is."""

    def __init__(self) -> None:
        self._run: Any | None = None
        self._pending_at: int | None = None  # the run's own step when our last values were laid into its row

    def log(self, record: StepRecord) -> None:
        """Mirror one step under `rlwatch/`."""
        run = active_run()
        if run is None:
            return
        if run is not self._run:
            self._run, self._pending_at = run, None
            run.define_metric("rlwatch/step", hidden=True)
            run.define_metric("rlwatch/*", step_metric="rlwatch/step")
        if self._pending_at is not None and run.step == self._pending_at:
            run.log({}, commit=True)
        row = {f"rlwatch/{name}": value for name, value in record.metrics.items() if value is not None}
        run.log({**row, "rlwatch/step": record.step}, commit=False)
        self._pending_at = run.step
