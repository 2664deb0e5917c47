"""What each part of rlwatch must do where nothing is installed but what it asks for: a script for such a place.

    python -I tests/package_parts.py PART [ARGUMENT...]

Every function is a part: the core, or an extra. Imports stand inside of them, for they are what is tested.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ABSENT = ("torch", "transformers", "trl", "accelerate", "dash", "plotly", "wandb", "apprise", "zstandard")
TRL = {"torch", "transformers", "trl", "datasets", "tokenizers"}
LOG = Path("run.log")


def rlwatch(*arguments: str, code: int = 0) -> str:
    """What the command prints; it has to exit with this code."""
    done = subprocess.run([sys.executable, "-I", "-m", "rlwatch", *arguments], capture_output=True, text=True)
    assert done.returncode == code, f"rlwatch {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def write_log() -> None:
    """A console log of 120 steps, in the last thirty of which the gradient is no number."""
    rows = [
        {"loss": 0.1, "entropy": 1.5, "grad_norm": 0.5 if step <= 90 else float("nan"), "reward": 0.5, "step": step}
        for step in range(1, 121)
    ]
    LOG.write_text("\n".join(str(row) for row in rows), encoding="utf-8")


def missing_under(package: str) -> dict[str, str]:
    """The modules of a package that cannot be imported here, and what each of them lacks."""
    found = {}
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if module.name.endswith(".__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            found[module.name] = str(error.name)
    return found


def core() -> None:
    """Logs are read, judged, compared and audited, and a loop is watched; what else is asked for names its extra."""
    for name in ABSENT:
        assert importlib.util.find_spec(name) is None, f"{name} is here: this tells nothing about the core"
    missing = missing_under("rlwatch")
    assert missing, "the trainer's part cannot be here without torch"
    assert {name.split(".")[1] for name in missing} <= {"capture", "lab", "signals"}, missing
    assert {lacks.partition(".")[0] for lacks in missing.values()} <= TRL, missing

    write_log()
    [run] = json.loads(rlwatch("analyze", str(LOG), "--format", "json", code=1))["runs"]
    assert run["records"] == 120, run
    assert "non-finite" in {alert["rule"] for alert in run["alerts"]}, run["alerts"]
    assert "rlwatch-monitor[dashboard]" in rlwatch("analyze", str(LOG), "--format", "html", "-o", "a.html", code=2)
    shutil.copy(LOG, "again.log")
    assert "1 failed" in rlwatch("compare", str(LOG), "again.log")
    state = {"trainer": "GRPOTrainer", "loss_type": "dapo", "num_generations": 8, "max_completion_length": 256}
    Path("config.json").write_text(json.dumps(state), encoding="utf-8")
    assert "token" in rlwatch("audit", "config.json")

    from rlwatch import Monitor

    monitor = Monitor("runs", name="own")
    for step in range(1, 4):
        monitor.rollouts([1.0, 0.0, 1.0, 1.0], group_size=2, lengths=[3, 4, 5, 6])
        monitor.step(step, loss=0.5)
    monitor.close()
    assert "own" in rlwatch("runs")
    assert "3" in rlwatch("analyze", "runs/own")

    assert "rlwatch-monitor[dashboard]" in rlwatch("dashboard", "runs", code=2)
    assert "rlwatch-monitor[trl]" in rlwatch("lab", "failure-room", code=2)
    told = subprocess.run([sys.executable, "-I", "-c", "from rlwatch import watch"], capture_output=True, text=True)
    assert "pip install 'rlwatch-monitor[trl]'" in told.stderr, told.stderr


def dashboard() -> None:
    """The page and everything that it loads is served, and a report is drawn."""
    write_log()
    rlwatch("analyze", str(LOG), "--format", "html", "-o", "report.html", code=1)
    assert "plotly" in Path("report.html").read_text(encoding="utf-8")

    assert not missing_under("rlwatch_dashboard")
    import rlwatch_dashboard
    from rlwatch_dashboard.app import create_app

    client = create_app(Path("runs")).server.test_client()
    answer = client.get("/", headers={"Host": "127.0.0.1"})
    assert answer.status_code == 200, answer.status
    assets = sorted((Path(rlwatch_dashboard.__file__).parent / "assets").iterdir())
    assert len(assets) > 10
    for asset in assets:
        loaded = client.get(f"/assets/{asset.name}", headers={"Host": "127.0.0.1"})
        assert loaded.status_code == 200, (asset.name, loaded.status)
        assert loaded.data == asset.read_bytes(), asset.name


def wandb() -> None:
    """A step is mirrored into the run that is active, and read back from the file that wandb wrote."""
    import wandb

    from rlwatch.runs.records import StepRecord
    from rlwatch.streams.wandb import WandbStream

    run = wandb.init(project="p", dir=".", mode="offline", settings={"console": "off"})
    stream = WandbStream()
    for step in range(1, 4):
        stream.log(StepRecord(step, 0.0, {"loss": 0.25 * step, "entropy/mean": 1.5}))
    run.finish()
    [path] = Path().glob("wandb/offline-run-*/*.wandb")
    [read] = json.loads(rlwatch("analyze", str(path), "--format", "json"))["runs"]
    assert {"loss", "entropy/mean"} <= set(read["metrics"]), read


def apprise(url: str) -> None:
    """A test alert goes through apprise to a server."""
    import os

    os.environ["RLWATCH_APPRISE_URLS"] = url
    print(rlwatch("alerts", "test"))


def zstd() -> None:
    """A log that is compressed with zstd is read."""
    import zstandard

    write_log()
    packed = Path("run.log.zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(LOG.read_bytes()))
    [run] = json.loads(rlwatch("analyze", str(packed), "--format", "json", code=1))["runs"]
    assert run["records"] == 120, run


def trl() -> None:
    """A real GRPOTrainer is watched, and nothing of rlwatch failed."""
    assert not missing_under("rlwatch")
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from rlwatch import RLWatchCallback
    from rlwatch.lab.model import make_config, make_model, make_tokenizer
    from rlwatch.runs.reader import read_info, read_records

    def odd(completions: list[str], **_: Any) -> list[float]:
        return [float(len(text) % 2) for text in completions]

    sizes: dict[str, Any] = {"max_steps": 2, "num_generations": 4, "per_device_train_batch_size": 4}
    quiet: dict[str, Any] = {"use_cpu": True, "bf16": False, "report_to": "none", "save_strategy": "no"}
    tokenizer = make_tokenizer()
    watcher = RLWatchCallback("runs")
    with contextlib.redirect_stdout(io.StringIO()):
        GRPOTrainer(
            model=make_model(make_config(tokenizer), seed=0),
            reward_funcs=[odd],
            args=GRPOConfig(output_dir="out", max_completion_length=8, **sizes, **quiet),
            train_dataset=Dataset.from_dict({"prompt": [f"{x:02d}" for x in range(8)]}),
            processing_class=tokenizer,
            callbacks=[watcher],
        ).train()
    assert watcher.run_dir is not None
    assert "faults" not in read_info(watcher.run_dir), read_info(watcher.run_dir)["faults"]
    records = read_records(watcher.run_dir).items
    assert [record.step for record in records] == [1, 2]
    for name in ("entropy/mean", "groups/zero_std", "grad/effective_norm", "clip/high", "weight/long"):
        assert name in records[0].metrics, name


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
