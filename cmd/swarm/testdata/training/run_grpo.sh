#!/usr/bin/env bash
# Guide 1's script: GRPO with verl, here with train_grpo.py in its place. Your own overrides come last.
#     bash run_grpo.sh data.max_response_length=512
set -euo pipefail
cd "$(dirname "$0")"

DATASET=${DATASET:-diamonds-seed0}
export PYTHONUNBUFFERED=1

"${PYTHON:-python3}" train_grpo.py \
    data.train_files="$DATASET" \
    data.train_batch_size=1024 \
    data.max_response_length=1024 \
    actor_rollout_ref.actor.ppo_mini_batch_size=256 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=32 \
    actor_rollout_ref.actor.fsdp_config.param_offload=False \
    actor_rollout_ref.actor.fsdp_config.optimizer_offload=False \
    actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \
    trainer.n_gpus_per_node=4 \
    trainer.total_epochs=1 \
    "$@"
