"""Advantages, clipped loss and gradient of one batch beside TRL's GRPOTrainer.

TRL runs one real training step: its sampler, its rewards and advantages, its loss, its backward pass. Only the
completions are given (rollout_func), and in the cases with old log-probabilities also these. The engine gets the same
weights, completions, advantages and log-probabilities. Advantages are compared in Go, where the program computes them.
"""

import os
import random
import sys

from peers import common

common.engine_path()

import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from datasets import Dataset  # noqa: E402
from engine import architecture, protocol, session, weights  # noqa: E402
from test_update import run_engine  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

VOCABULARY, EOS = 97, 13
# TRL pads prompts on the left and leaves positions to the model. Llama's positions are relative, GPT-2's start in the
# padding.
PROMPTS = {
    "Llama": ([5, 3, 28], [7], [11, 12, 4, 9, 9, 1, 2, 6], [2, 2]),
    "GPT2": ([5, 3, 28], [7, 8, 1], [11, 12, 4], [2, 2, 6]),
}
GENERATIONS = 4
LONGEST = 15  # tokens of a completion
TEMPERATURE = 0.9
# The rewards of each prompt's completions. The third group has no advantage, but counts in the denominators.
REWARDS = ((0.0, 1.0, 1.0, 0.0), (0.01, 0.35, 1.0, 0.0), (1.0, 1.0, 1.0, 1.0), (0.0, 0.0, 0.0, 1.0))
TRL_EPSILON = 1e-4  # that TRL adds to the standard deviation
TOLERANCE = 1e-5
CASES = [(kind, old) for kind in ("bnpo", "grpo", "dr_grpo") for old in (False, True)]
SIZES = {
    "GPT2": dict(n_embd=48, n_layer=2, n_head=4, n_positions=64),
    "Llama": dict(hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=64),
}


def make_batch():
    """Completions of each prompt, of all lengths up to LONGEST. Half of them end."""
    rng = random.Random(4)
    groups = []
    for _ in REWARDS:
        group = []
        for i in range(GENERATIONS):
            tokens = [rng.randrange(EOS + 1, VOCABULARY) for _ in range(rng.randint(1, LONGEST))]
            group.append(tokens[:-1] + [EOS] if i % 2 else tokens)
        groups.append(group)
    assert len({tuple(c) for group in groups for c in group}) == len(REWARDS) * GENERATIONS
    return groups


def make_tokenizer():
    """Token i is the word t<i>."""
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"t{i}": i for i in range(VOCABULARY)}, unk_token="t0"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token=f"t{EOS}", pad_token="t0", unk_token="t0", padding_side="left"
    )


def old_logprobs(model, prompts, groups):
    """Log-probabilities of a policy that is near the model's: {completion: [of each token]}."""
    generator = torch.Generator().manual_seed(7)
    out = {}
    for prompt, group in zip(prompts, groups):
        for tokens in group:
            with torch.no_grad():
                logits = model.eval()(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1]
            logp = (logits / TEMPERATURE).log_softmax(-1)[range(len(tokens)), tokens]
            out[tuple(tokens)] = (logp + torch.randn(len(tokens), generator=generator) * 0.3).clamp(max=0).tolist()
    return out


class Watched(GRPOTrainer):
    """Keeps the inputs of the loss, and the gradient before the optimizer's step."""

    given = None  # old log-probabilities by completion; None: ratio 1

    def compute_loss(self, model, inputs, *arguments, **options):
        rows = [tuple(ids[mask.bool()].tolist()) for ids, mask in zip(inputs["completion_ids"], inputs["completion_mask"])]
        if self.given is not None:
            old = torch.zeros(inputs["completion_ids"].shape)
            for i, row in enumerate(rows):
                old[i, : len(row)] = torch.tensor(self.given[row])
            inputs = dict(inputs, old_per_token_logps=old)
        loss = super().compute_loss(model, inputs, *arguments, **options)
        self.kept_loss = loss.item()
        self.kept_advantages = dict(zip(rows, inputs["advantages"].tolist()))
        return loss


class Gradient(transformers.TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        self.kept = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def by_trl(folder, prompts, groups, kind, old, scratch):
    """One step of TRL: (loss, gradient norm as logged, gradients, advantages by completion, logged metrics)."""
    rewards = {tuple(c): r for group, row in zip(groups, REWARDS) for c, r in zip(group, row)}
    words = lambda ids: " ".join(f"t{i}" for i in ids)
    by_prompt = {words(prompt): (prompt, group) for prompt, group in zip(prompts, groups)}

    def rollout(repeated, *_):
        seen, out = {}, {"prompt_ids": [], "completion_ids": [], "logprobs": []}
        for prompt in repeated:
            ids, group = by_prompt[prompt]
            tokens = group[seen.setdefault(prompt, 0)]
            seen[prompt] += 1
            out["prompt_ids"].append(ids)
            out["completion_ids"].append(tokens)
            out["logprobs"].append([0.0] * len(tokens))
        return out

    def reward(completion_ids, **_):
        return [rewards[tuple(ids)] for ids in completion_ids]

    options = GRPOConfig(
        output_dir=os.path.join(scratch, "trl"), loss_type=kind, beta=0.0, epsilon=0.2, epsilon_high=0.28, scale_rewards="group",
        temperature=TEMPERATURE, num_generations=GENERATIONS, max_completion_length=LONGEST, per_device_train_batch_size=len(REWARDS) * GENERATIONS,
        gradient_accumulation_steps=1, num_iterations=1, max_steps=1, max_grad_norm=1e9, learning_rate=1e-3, disable_dropout=True,
        shuffle_dataset=False, gradient_checkpointing=False, bf16=False, use_cpu=True, report_to="none", save_strategy="no", logging_steps=1,
        disable_tqdm=True, logging_strategy="steps",
    )  # fmt: skip
    gradient = Gradient()
    trainer = Watched(
        model=transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), reward_funcs=reward, args=options,
        train_dataset=Dataset.from_dict({"prompt": list(by_prompt)}), processing_class=make_tokenizer(), rollout_func=rollout,
        callbacks=[gradient],
    )  # fmt: skip
    trainer.given = old
    trainer.train()
    logged = next(entry for entry in trainer.state.log_history if "grad_norm" in entry)
    return trainer.kept_loss, logged["grad_norm"], gradient.kept, trainer.kept_advantages, logged


def by_engine(folder, prompts, groups, kind, old, advantages):
    config, _ = architecture.read_config(folder)
    model = architecture.make_model(config)
    weights.load(model, folder)
    sequences = [
        protocol.Sequence(i, tokens, advantages[tuple(tokens)], old[tuple(tokens)] if old else None)
        for i, group in enumerate(groups)
        for tokens in group
    ]
    request = protocol.Update(
        prompts, sequences, temperature=TEMPERATURE, loss_type=kind, max_completion_length=LONGEST, epsilon=0.2, epsilon_high=0.28
    )
    _, outcome, gradients = run_engine(model, request)
    return outcome, gradients


def compare(folder, prompts, groups, kind, old, scratch):
    """The largest relative difference of loss, gradient norm and gradient; and what differed in words."""
    loss, norm, theirs, advantages, logged = by_trl(folder, prompts, groups, kind, old, scratch)
    outcome, ours = by_engine(folder, prompts, groups, kind, old, advantages)
    size = sum(abs(a) for a in advantages.values()) / len(advantages)  # with ratio 1 a loss is a difference of advantages, near 0
    whole = sum(g.double().pow(2).sum() for g in theirs.values()).sqrt()
    apart = sum((ours[name].double() - g.double()).pow(2).sum() for name, g in theirs.items()).sqrt()
    found = {
        "loss": common.relative(outcome.loss, loss, size),
        "gradient norm": common.relative(outcome.grad_norm, norm),
        "gradient": float(apart / whole),
    }
    # These are shares of a few tokens: they are equal except for rounding, or wrong.
    for name in ("low", "high"):
        found[f"clip_ratio/{name}_mean"] = abs(getattr(outcome, f"clip_ratio_{name}") - logged[f"clip_ratio/{name}_mean"])
    clipped = logged["clip_ratio/low_mean"] + logged["clip_ratio/high_mean"]
    if set(ours) != set(theirs):
        raise ValueError(f"parameters differ: {sorted(set(ours) ^ set(theirs))}")
    return found, advantages, clipped


def make_model(kind, folder):
    torch.manual_seed(3)
    common_sizes = dict(vocab_size=VOCABULARY, eos_token_id=EOS, bos_token_id=EOS, initializer_range=0.2)
    config = getattr(transformers, kind + "Config")(**SIZES[kind], **common_sizes)
    model = getattr(transformers, {"GPT2": "GPT2LMHeadModel"}.get(kind, kind + "ForCausalLM"))(config)
    model.save_pretrained(folder)
    return model


def main():
    scratch = sys.argv[1]
    session.set_threads(1)
    groups = make_batch()
    worst, differ, least = {}, [], 1.0
    for architecture_, prompts in PROMPTS.items():
        folder = os.path.join(scratch, architecture_)
        near = old_logprobs(make_model(architecture_, folder), prompts, groups)
        for kind, with_old in CASES:
            found, advantages, clipped = compare(folder, prompts, groups, kind, near if with_old else None, scratch)
            least = min(least, clipped) if with_old else least
            for name, value in found.items():
                worst[name] = max(worst.get(name, 0.0), value)
                if value > TOLERANCE:
                    differ.append(f"{architecture_} {kind}{' with old log-probabilities' if with_old else ''}: {name} {value:.2g}")
    if least == 0:
        differ.append("no ratio was clipped, so the cases say nothing about clipping")
    shifted = compare(os.path.join(scratch, "GPT2"), PROMPTS["Llama"], groups, "bnpo", None, scratch)[0]["gradient"]
    rows = [{"rewards": row, "advantages": [advantages[tuple(c)] for c in group]} for group, row in zip(groups, REWARDS)]
    apart = common.advantages_in_go(rows, TRL_EPSILON, TOLERANCE, scratch)
    for line in differ:
        print(line)
    measured = f"{len(PROMPTS) * len(CASES)} updates (GPT-2, Llama; bnpo, grpo, dr_grpo; ratio 1, and old log-probabilities with {least:.0%} of tokens clipped): "
    measured += "largest relative difference of " + ", ".join(f"{name} {value:.1g}" for name, value in worst.items() if not name.startswith("clip"))
    note = f"TRL divides by the standard deviation + {TRL_EPSILON:g}: its advantages are "
    note += "not compared, go is not on PATH" if apart is None else f"up to {apart:.2g} smaller than ours, and equal to {TOLERANCE:g} with that term"
    note += f"; with GPT-2 and prompts of unequal length TRL counts padding as positions, and its gradient is {shifted:.0%} of its norm away from ours"
    if differ:
        note = f"{len(differ)} differences, the first: {differ[0]}; {note}"
    common.answer(measured, "differs" if differ else "equal", note)


if __name__ == "__main__":
    main()
