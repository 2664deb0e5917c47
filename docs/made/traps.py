"""What another number of the same name, or the obvious reading of this one, gets wrong: the last column of the metrics.

Numbers are of TRL 1.16, measured, unless a source is named. A test holds every key against the table of metrics.
"""

from __future__ import annotations

_ENTROPY = "half of all tokens have an entropy under 0.01 (2506.01939): a mean says little of the others"
_KINDS = "a high zero-variance share is what success looks like, too: .83 to .85 in runs that win, all of it solved"
_BY_LENGTH = "under `grpo` wrong answers grew by 21 tokens and right ones shrank by 7: the mean of both shows neither"
_WEIGHT = "the loss's value does not say which examples made the gradient"

TRAPS: dict[str, str] = {
    "entropy/mean": "TRL's `entropy` is a mean of micro-batches' means: 2.540 logged where 2.495 is true; with "
    "`mask_truncated_completions` 0.317 where 2.532 is",
    "entropy/p10": _ENTROPY,
    "entropy/p50": _ENTROPY,
    "entropy/p90": _ENTROPY,
    "entropy/top20": _ENTROPY,
    "surprisal/mean": "it is no entropy where the sampler is not the policy: the two then part",
    "groups/zero_std": "TRL's `frac_reward_zero_std` tests the deviation that it scales by: 0.0 logged with "
    '`scale_rewards="batch"` where 75 % of the groups are dead; eight rewards of 3.3 count as different (float error)',
    "groups/solved": _KINDS,
    "groups/failed": _KINDS,
    "groups/stuck": _KINDS,
    "groups/reward_std": "TRL's `reward_std` is that of the batch: 0.34 logged where 0.14 is within groups; it can be "
    "0.5 with every group dead",
    "groups/excess": "small groups tie by chance: with p = 0.9 and G = 8, 43 % of them do",
    "groups/unique": "a group can die with different completions: a few answers that earn the same are enough",
    "groups/wasted_tokens": "a share of groups is no share of the compute: dead groups may be the short ones",
    "reward/mean": "TRL logs none on steps that reuse a generation; here `rollouts/age` says that it is an old one",
    "reward/std": "it holds the difference between prompts, which no advantage does: see `groups/reward_std`",
    "length/correct": _BY_LENGTH,
    "length/incorrect": _BY_LENGTH,
    "length/gap": "hard prompts have longer and more wrong answers: the gap is taken within prompts that have both",
    "length/truncated": "TRL's `mean_terminated_length` reads 0 where all completions are truncated",
    "grad/norm": "TRL's `grad_norm` is that of the last step of a logging window: 0.0 logged where the steps had 0.51, "
    "0.62, 0.78 and 0.0",
    "grad/applied_norm": "a logged norm is before clipping; the optimizer gets this one",
    "grad/effective_norm": "under a KL penalty the norm stays at .105 while every group is dead, and 0.0 % of it comes "
    "from the rewards",
    "grad/regulariser_norm": "with every group dead it is the whole gradient: `grad/norm` stays up (2604.06268)",
    "update/norm": "under Adam a small gradient is no small update",
    "signal/abs_advantage": "group scaling blows near ties up: rewards 1e-3 apart give an advantage of about 1.9",
    "advantage/mean": "a reward that rises does not move it; a broken baseline does",
    "weight/incorrect": _WEIGHT,
    "weight/long": _WEIGHT,
    "weight/hard": _WEIGHT,
    "weight/easy": _WEIGHT,
    "weight/length_corr": _WEIGHT,
    "ratio/mean": "with one update a rollout it is exactly 1, and no clip can act whatever epsilon is",
    "ratio/max": "a mean of 1.00 hides single tokens far off",
    "clip/low": "0 may mean that the clip is inert (one update a rollout) and not that the steps are small",
    "clip/high": "under `cispo` the default epsilon cuts every ratio at 0.2: a fifth of the gradient that is meant",
    "clip/high_rare": "the share that is clipped (.003) does not tell runs that die from runs that learn",
    "kl/ref": "TRL's `kl` is a mean of micro-batches' means, as its `entropy` is",
    "sampler/logp_gap_mean": "a sampler twice as hot that says so has a mean weight of 1.00: only the gap shows it",
    "sampler/ratio_mean": "TRL logs it after clipping or masking: at most 0.73 where 4.99 was raw",
    "loss": "it is near 0 in runs that die and in runs that learn; TRL's logged one has NaN replaced (its source)",
    "tokens/total": "steps that resample are not equally dear: compare by tokens",
    "rollouts/age": "on steps that reuse rollouts every number of theirs repeats, and is no new evidence",
}
