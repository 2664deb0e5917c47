"""From the sums of a step to its metrics: plain numbers, whoever summed them."""

from __future__ import annotations

from collections.abc import Mapping

RARE = 0.2
"""The probability under which a token is rare: DAPO (2503.14476) found that clipped-up tokens lie below it."""


def token_metrics(sums: Mapping[str, float], maxima: Mapping[str, float]) -> dict[str, float]:
    """The metrics of a step from its sums and maxima over micro-batches and ranks; what was not summed is absent."""
    metrics: dict[str, float] = {}

    def mean(name: str, total: str, count: str, sign: float = 1.0) -> None:
        if total in sums and sums.get(count):
            metrics[name] = sign * sums[total] / sums[count]

    mean("entropy/mean", "entropy", "tokens")
    mean("entropy/correct", "correct_entropy", "correct_tokens")
    mean("entropy/incorrect", "incorrect_entropy", "incorrect_tokens")
    mean("surprisal/mean", "logp", "tokens", sign=-1.0)
    mean("advantage/mean", "advantage", "tokens")
    mean("ratio/mean", "ratio", "ratios")
    mean("clip/low", "clipped_low", "ratios")
    mean("clip/high", "clipped_high", "ratios")
    mean("clip/high_rare", "clipped_high_rare", "clipped_high")
    mean("kl/old", "old_kl", "tokens")
    mean("kl/ref", "ref_kl", "tokens")
    mean("sampler/logp_gap_mean", "sampler_gap", "sampled")
    mean("sampler/ratio_mean", "sampler_ratio", "sampled")
    if "advantage_logp" in sums and sums.get("tokens"):
        count = sums["tokens"]
        together, apart = sums["advantage_logp"] / count, sums["advantage"] / count * (sums["logp"] / count)
        metrics["cov/logp_advantage"] = together - apart
    if sums.get("ratios") and "ratio" in maxima:
        metrics["ratio/max"] = maxima["ratio"]
    if sums.get("sampled") and "sampler_gap" in maxima:
        metrics["sampler/logp_gap_max"] = maxima["sampler_gap"]
    return metrics
