#!/usr/bin/env bash
# The same training on two processes that share a CPU, over gloo; every number is that of both ranks together.
#   bash examples/grpo_two_ranks.sh --steps 20
# On a machine with two GPUs leave CUDA_VISIBLE_DEVICES out (not run here).
set -euo pipefail
export CUDA_VISIBLE_DEVICES="" OMP_NUM_THREADS=1
exec torchrun --standalone --nproc_per_node 2 "$(dirname "$0")/grpo_trl.py" "$@"
