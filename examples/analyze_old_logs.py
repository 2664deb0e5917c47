"""A folder of old logs as one table, the worst first: `python examples/analyze_old_logs.py LOGS... [--csv FILE]`.

A log may be of TRL, verl, OpenRLHF, wandb, TensorBoard, ...; what it is is found out from its content.
"""

from __future__ import annotations

import argparse

import polars as pl

from rlwatch.readers import UnreadableError, load_all
from rlwatch.report.analysis import VERDICTS, analyze_run

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("paths", nargs="+", help="files, folders or patterns")
parser.add_argument("--csv", help="write the table to this file")
options = parser.parse_args()

rows = []
for path, found in load_all(options.paths):
    if isinstance(found, UnreadableError):
        print(f"not read: {path}: {found}")
        continue
    for run in found:
        analysis = analyze_run(run)
        worst = analysis.alerts[0] if analysis.alerts else None
        rewards = [value for record in run.records if (value := record.metrics.get("reward/mean")) is not None]
        rows.append(
            {
                "run": run.name,
                "format": run.format,
                "steps": run.records[-1].step,
                "verdict": analysis.verdict,
                "alert": worst.rule if worst else None,
                "since": worst.since if worst else None,
                "best_reward": max(rewards, default=None),
                "last_reward": rewards[-1] if rewards else None,
                "not_checked": len(analysis.unchecked),
            }
        )

if not rows:
    raise SystemExit("there is no run in it")
rows.sort(key=lambda row: VERDICTS.index(row["verdict"]))
table = pl.DataFrame(rows, infer_schema_length=None)
with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=200, fmt_str_lengths=60):
    print(table)
if options.csv:
    table.write_csv(options.csv)
