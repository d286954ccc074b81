#!/usr/bin/env python3
"""A small stand-in for guide 1's verl: GRPO with verl's settings, as one GPU of n_gpus_per_node. run_grpo.sh starts
it.

A step draws completions for this GPU's share of train_batch_size. Advantages are rewards minus their group's mean.
Then, one mini-batch after another, the policy is updated, micro-batch by micro-batch. Rollouts get the fraction
gpu_memory_utilization of the memory.
"""

import argparse
import os
import tempfile

import memory
import settings
import switches

ACTOR = "actor_rollout_ref.actor."
DEFAULTS = {
    "data.train_files": "diamonds-seed0", "data.train_batch_size": 1024, "data.max_response_length": 1024, ACTOR + "ppo_mini_batch_size": 256,
    ACTOR + "ppo_micro_batch_size_per_gpu": 32, ACTOR + "fsdp_config.param_offload": False, ACTOR + "fsdp_config.optimizer_offload": False,
    "actor_rollout_ref.rollout.gpu_memory_utilization": 0.6, "trainer.n_gpus_per_node": 4, "trainer.total_epochs": 1,
}
WORDS, WIDTH, ACTIONS, GROUP = 16384, 32, 128, 8  # 2 MB of weights, mostly of the vocabulary


def policy(torch):
    nn = torch.nn
    return nn.Sequential(nn.Embedding(WORDS, WIDTH), nn.Tanh(), nn.Linear(WIDTH, ACTIONS))


class Parked:
    """Keeps tensors in a file until they are needed. Without offload they stay in memory."""

    def __init__(self, torch, folder, name, offload):
        self.torch, self.path, self.offload, self.value = torch, os.path.join(folder, name), offload, None

    def put(self, value):
        if self.offload:
            self.torch.save(value, self.path)
        else:
            self.value = value

    def get(self):
        return self.torch.load(self.path) if self.offload else self.value


def update(torch, model, reference, optimizer, states, tokens, advantages, mini, micro):
    """Updates with a mini-batch's completions and returns the mean loss. tokens is (mini, response length),
    advantages (mini,).
    """
    total = 0.0
    for begin in range(0, mini, micro):
        part = tokens[begin:begin + micro]
        with torch.no_grad():
            before = reference.get()
            known = (before(part[:, :-1]).log_softmax(-1) * 0.001).gather(-1, part[:, 1:, None] % ACTIONS)[..., 0]
            del before
        logs = model(part[:, :-1]).log_softmax(-1).gather(-1, part[:, 1:, None] % ACTIONS)[..., 0]
        loss = ((logs - known) * -advantages[begin:begin + micro, None]).mean(-1).sum() / mini
        loss.backward()
        total += float(loss.detach())
    parameters = list(model.parameters())
    for parameter, state in zip(parameters, states.get() or []):
        optimizer.state[parameter] = state
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    states.put([optimizer.state[parameter] for parameter in parameters])
    if states.offload:
        optimizer.state.clear()
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    switches.add(parser)
    options = parser.parse_intermixed_args()
    s = settings.override(dict(DEFAULTS), options.overrides)
    gpus, length = settings.whole(s, "trainer.n_gpus_per_node"), settings.whole(s, "data.max_response_length")
    share = max(GROUP, settings.whole(s, "data.train_batch_size") // gpus)
    mini, micro = max(1, settings.whole(s, ACTOR + "ppo_mini_batch_size") // gpus), settings.whole(s, ACTOR + "ppo_micro_batch_size_per_gpu")
    print("".join("{}={}\n".format(key, value) for key, value in s.items()) + "share={} of {} GPUs, micro_batch={} accumulate={} "
          "effective_batch={}".format(share, gpus, micro, -(-mini // micro), s[ACTOR + "ppo_mini_batch_size"]), flush=True)
    switches.begin(options, micro, "cuda")

    memory.one_thread()
    import torch
    torch.manual_seed(7)
    with tempfile.TemporaryDirectory(prefix="offload-") as folder:
        train(torch, s, options, folder, share, mini, micro, length)
    raise SystemExit(options.exit)


def train(torch, s, options, folder, share, mini, micro, length):
    model, more = policy(torch), switches.Steps(options)
    # Make torch's one-time allocations before the limit. The matrices are large enough for BLAS's path for large
    # matrices: OpenBLAS retries forever if it can't allocate its buffer later.
    model(torch.zeros(64, 64, dtype=torch.long)).sum().backward()
    model.zero_grad(set_to_none=True)
    limit = memory.wanted(options.memory)
    memory.limit(limit)
    rollouts = torch.empty(int(limit * s["actor_rollout_ref.rollout.gpu_memory_utilization"]) << 20, dtype=torch.uint8)
    reference = Parked(torch, folder, "reference", s[ACTOR + "fsdp_config.param_offload"])
    frozen = policy(torch)
    frozen.load_state_dict(model.state_dict())
    reference.put(frozen)
    del frozen
    states = Parked(torch, folder, "optimizer", s[ACTOR + "fsdp_config.optimizer_offload"])
    states.put(None)
    optimizer, done, loss, generator = torch.optim.Adam(model.parameters(), lr=0.001), 0, float("nan"), torch.Generator().manual_seed(7)
    while not more.over(done, settings.whole(s, "trainer.total_epochs")):
        more.before(torch)
        tokens = torch.randint(WORDS, (share, length), generator=generator)
        rewards = (tokens % ACTIONS).float().mean(-1)
        groups = rewards[:share - share % GROUP].view(-1, GROUP)
        advantages = torch.cat([(groups - groups.mean(-1, keepdim=True)).flatten(), rewards.new_zeros(share % GROUP)])
        loss = 0.0
        for begin in range(0, share, mini):
            loss = update(torch, model, reference, optimizer, states, tokens[begin:begin + mini], advantages[begin:begin + mini],
                          len(tokens[begin:begin + mini]), micro)
        done += 1
        print("step {} loss={:.6f} rollout_mb={}".format(done, loss, rollouts.numel() >> 20), flush=True)
    print("done loss={:.6f} micro_batch={} effective_batch={} peak_mb={}".format(
        loss, micro, s[ACTOR + "ppo_mini_batch_size"], memory.most_held() >> 20), flush=True)


if __name__ == "__main__":
    main()
