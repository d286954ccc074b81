#!/bin/bash
# data.train_batch_size=1024 was the first try; don't touch
set -euo pipefail

export VLLM_ATTENTION_BACKEND=XFORMERS
export OMP_NUM_THREADS=4 WANDB_MODE="offline"
MODEL=${MODEL:-Qwen/Qwen2.5-1.5B}
EPOCHS=$((3 * 5))
NAME='grpo run'
RATE="lr_${MODEL}"
FLAGS+=x

python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    data.train_files="$HOME/data/train.parquet" \
    data.train_batch_size=1024 \
    data.max_response_length=1024 \
    actor_rollout_ref.actor.ppo_mini_batch_size=256 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=32 \
    +actor_rollout_ref.actor.fsdp_config.param_offload=False \
    "trainer.note=first try" \
    trainer.logger=['console'] \
    trainer.n_gpus_per_node=4 --seed 17 --lr=1e-6 --tag first\
ly trainer.resume=1"2" \
    trainer.n_gpus=4 $@ # trainer.n_gpus=5
echo done; BATCH=7; export BATCH
log.every=10 log.every=20
