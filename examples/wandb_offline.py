"""Metrics and alerts in a wandb run, without an account or a network: `python examples/wandb_offline.py`.

A wandb run that is active is found; rlwatch starts none. `rlwatch analyze wandb` reads the offline files again, also
those of a training that was never watched.
"""

from __future__ import annotations

import argparse

import wandb

import rlwatch

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=60, help="optimizer steps")
parser.add_argument("--dir", default=".", help="the folder for wandb/ and runs/")
options = parser.parse_args()

with (
    wandb.init(project="rlwatch-example", mode="offline", dir=options.dir) as run,
    rlwatch.Monitor(f"{options.dir}/runs", name="wandb-example") as monitor,
):
    for step in range(1, options.steps + 1):
        monitor.step(step, loss=0.1 / step, **{"reward/mean": min(0.9, 0.2 + step / 100), "entropy/mean": 0.8})
        run.log({"my/number": step**2})  # your own rows: rlwatch's numbers come to lie in them
print(f"rlwatch analyze {options.dir}/wandb")
