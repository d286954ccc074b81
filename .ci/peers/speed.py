"""One generation and one update of models of real size beside transformers' generate and TRL's loss, on two threads.

Each measurement is a process of its own, so that its peak memory is its own: weights are read, then the work is done
twice, and the faster one counts. Weights are random. Both do the same: 8 prompts of 64 tokens, 4 completions of 32 new
tokens each, sampled; then one step of Adam on these 32 completions.
"""

import json
import os
import random
import resource
import subprocess
import sys
import time

from peers import common

PROMPTS, PROMPT_TOKENS, GENERATIONS, NEW_TOKENS = 8, 64, 4, 32
THREADS, REPEATS = 2, 2
CHILD_SECONDS = 240
ENOUGH = 1.5  # times as fast: the target
SHAPES = {
    "gpt2": ("GPT2", {}),  # transformers' defaults are the 124M model
    "smollm2-135m": (
        "Llama",
        dict(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
             max_position_embeddings=8192, tie_word_embeddings=True, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2),
    ),
}  # fmt: skip


def make_weights(name, folder):
    import torch
    import transformers

    kind, sizes = SHAPES[name]
    torch.manual_seed(1)
    getattr(transformers, "GPT2LMHeadModel" if kind == "GPT2" else kind + "ForCausalLM")(getattr(transformers, kind + "Config")(**sizes)).save_pretrained(folder)


def batch(vocabulary):
    """Returns prompts, completions in order, and advantages. No group's advantages are all 0."""
    rng = random.Random(5)
    draw = lambda n: [rng.randrange(3, vocabulary) for _ in range(n)]
    prompts = [draw(PROMPT_TOKENS) for _ in range(PROMPTS)]
    completions = [draw(NEW_TOKENS) for _ in range(PROMPTS * GENERATIONS)]
    advantages = [(-1.0) ** i * (1 + i % GENERATIONS / 4) for i in range(len(completions))]
    return prompts, completions, advantages


def engine(folder, phase):
    """A function that does the work once, with swarm's engine."""
    common.engine_path()
    from engine import architecture, protocol, session, weights
    from engine.adam import Adam
    from engine.generate import generate
    from engine.update import Trainer

    session.set_threads(THREADS)
    config, _ = architecture.read_config(folder)
    model = architecture.make_model(config)
    weights.load(model, folder)
    prompts, completions, advantages = batch(config.vocab_size)
    if phase == "generate":
        request = protocol.Generate(prompts, GENERATIONS, NEW_TOKENS)
        return lambda: [len(tokens) for tokens in generate(model, request).tokens]
    sequences = [protocol.Sequence(i // GENERATIONS, tokens, advantages[i]) for i, tokens in enumerate(completions)]
    request = protocol.Update(prompts, sequences, learning_rate=1e-6, max_grad_norm=1.0, max_completion_length=NEW_TOKENS)
    trainer = Trainer(model, Adam())
    return lambda: trainer.update(request).steps


def peer(folder, phase):
    """The same with transformers' generate, and with TRL's GRPOTrainer: its loss, torch's backward pass and Adam."""
    import torch
    import transformers

    torch.set_num_threads(THREADS)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompts, completions, advantages = batch(model.config.vocab_size)
    if phase == "generate":
        model.eval()
        ids = torch.tensor([p for p in prompts for _ in range(GENERATIONS)])
        options = transformers.GenerationConfig(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=NEW_TOKENS,
                                                min_new_tokens=NEW_TOKENS, pad_token_id=0, eos_token_id=2)  # fmt: skip

        def sample():
            with torch.inference_mode():
                out = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=options)
            return [out.shape[1] - PROMPT_TOKENS] * len(ids)

        return sample
    trainer = make_trl(model, folder)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-6)
    rows = torch.tensor([p for p in prompts for _ in range(GENERATIONS)])
    ids = torch.tensor(completions)
    inputs = {"prompt_ids": rows, "prompt_mask": torch.ones_like(rows), "completion_ids": ids, "completion_mask": torch.ones_like(ids),
              "advantages": torch.tensor(advantages), "num_items_in_batch": torch.tensor(ids.numel())}  # fmt: skip

    def step():
        model.train()
        trainer.compute_loss(model, inputs).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return 1

    return step


def make_trl(model, folder):
    """A GRPOTrainer that is ready to compute a loss."""
    import tokenizers
    import transformers
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"t{i}": i for i in range(64)}, unk_token="t0"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="t2", pad_token="t0", unk_token="t0")
    options = GRPOConfig(output_dir=folder + ".trl", loss_type="bnpo", num_generations=GENERATIONS, max_completion_length=NEW_TOKENS, temperature=1.0,
                         per_device_train_batch_size=PROMPTS * GENERATIONS, gradient_checkpointing=False, bf16=False, use_cpu=True, report_to="none",
                         disable_dropout=True)  # fmt: skip
    trainer = GRPOTrainer(model=model, reward_funcs=lambda completions, **_: [0.0] * len(completions), args=options,
                          train_dataset=Dataset.from_dict({"prompt": ["t3"] * PROMPTS}), processing_class=tokenizer)  # fmt: skip
    trainer.current_gradient_accumulation_steps = 1  # which its training loop sets
    return trainer


def child(who, phase, folder):
    work = {"engine": engine, "peer": peer}[who](folder, phase)
    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        done = work()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": min(seconds), "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "done": done}))


def measure(who, phase, folder):
    environment = dict(os.environ, OMP_NUM_THREADS=str(THREADS))
    command = [sys.executable, "-m", "peers.speed", "--child", who, phase, folder]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=CHILD_SECONDS)
    if done.returncode:
        raise OSError(f"{who} {phase}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    if sys.argv[1] == "--child":
        child(*sys.argv[2:])
        return
    scratch, told, notes = sys.argv[1], [], []
    for name in SHAPES:
        folder = os.path.join(scratch, name)
        make_weights(name, folder)
        for phase in ("generate", "update"):
            ours, theirs = (measure(who, phase, folder) for who in ("engine", "peer"))
            if ours["done"] != theirs["done"]:
                raise ValueError(f"{name} {phase}: unequal work: {ours['done']} against {theirs['done']}")
            faster, less = theirs["seconds"] / ours["seconds"], ours["rss"] / theirs["rss"]
            told.append(f"{name} {phase}: {ours['seconds']:.2f} s against {theirs['seconds']:.2f} s ({faster:.2f} times as fast), "
                        f"{ours['rss'] / 1e6:.0f} MB against {theirs['rss'] / 1e6:.0f} MB ({less:.2f})")  # fmt: skip
            if faster < ENOUGH:
                notes.append(f"{name} {phase} misses {ENOUGH} times as fast")
            if less > 1:
                notes.append(f"{name} {phase} takes more memory")
    common.answer("; ".join(told), "behind" if notes else "ahead", "; ".join(notes))


if __name__ == "__main__":
    main()
