"""Several ranks of one training, as a person starts them: torchrun with gloo, on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def torchrun(ranks: int, script: str, *arguments: object) -> None:
    """Run a script of this folder on so many ranks, and wait for all of them."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    more = {
        "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path[1:]]),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [*command, str(HERE / script), *map(str, arguments)],
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
