"""Compares the engine's log-probabilities with those of transformers (or, without it, of plain torch operations) for
the same weights and tokens, at every precision, with and without CUDA graphs.

    parity.py      reads a request on stdin, prints the reference's log-probabilities
"""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import child
import model
from engine_client import Engine, EngineError

HERE = Path(__file__).resolve().parent
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")


@dataclass
class Way:
    """One precision, with or without graphs: the engine's samples and their scores, or the reason why there are none.
    """

    precision: str
    graphs: bool
    self_test: float = None
    sequences: list = field(default_factory=list)  # prompt index and completion
    drawn: list = field(default_factory=list)  # log-probabilities while sampling
    scored: list = field(default_factory=list)  # log-probabilities computed as in an update
    refused: str = ""  # the device does not support this precision
    failed: str = ""

    @property
    def name(self):
        return self.precision + (", graphs" if self.graphs else "")


def ask_engine(folder, device, precisions, threads, log, graphs=(False, True)):
    """Returns a Way for each precision with and without graphs. One engine serves all. If it dies, a new one follows.
    """
    prompts = [ids[: 5 + 9 * i] for i, ids in enumerate(model.prompts(3, 32, 50257, seed=2))]
    ways, engine = [], None
    try:
        for precision in precisions:
            for with_graphs in graphs:
                way = Way(precision, with_graphs)
                ways.append(way)
                try:
                    engine = engine or Engine(log)
                    measure(engine, way, prompts, folder, device, threads)
                except EngineError as error:
                    # Before Ampere bf16 is refused. That is a reported outcome, and the other precisions continue.
                    where = "refused" if error.kind == "bad_request" and precision in str(error) else "failed"
                    setattr(way, where, f"{error.kind}: {error}")
                except (RuntimeError, OSError, ValueError, KeyError) as error:
                    way.failed = f"{type(error).__name__}: {error}"
                    if engine is not None:
                        engine.__exit__()
                    engine = None
    finally:
        if engine is not None:
            engine.__exit__()
    return prompts, ways


def measure(engine, way, prompts, folder, device, threads):
    options = {"cuda_graphs": True} if way.graphs else {}
    load = engine.call("load", model_dir=str(folder), device=device, precision=way.precision, threads=threads, self_test=True, **options)
    way.self_test = load["self_test_max_abs_diff"]
    out = engine.call("generate", prompts=prompts, num_generations=2, max_new_tokens=24, temperature=1.0, eos_token_id=-1, seed=3)
    way.sequences = [{"prompt": i // 2, "completion": completion} for i, completion in enumerate(out["completions"])]
    way.drawn = out["logprobs"]
    way.scored = engine.call("logprobs", prompts=prompts, sequences=way.sequences, temperature=1.0)["logprobs"]


def ask_reference(folder, device, rows, log, cap=60):
    """Returns {"library": name, "logprobs": those of each (prompt, completion) of rows} in fp32."""
    request = log.with_suffix(".request.json")
    request.write_text(json.dumps({"folder": str(folder), "device": device, "rows": rows}))
    with open(request, "rb") as stdin:
        lines, code, problem = child.run([sys.executable, HERE / "parity.py"], log, cap, cwd=HERE, stdin=stdin)
    if problem or code or not lines:
        raise RuntimeError(f"the reference: {problem or child.last_line(log)}")
    return json.loads(lines[-1])


def difference(a, b):
    """Returns the largest |difference| between two lists of rows, which must have equal shapes."""
    if [len(row) for row in a] != [len(row) for row in b] or not any(a):
        raise ValueError("the log-probabilities differ in length from the reference's")
    return max(abs(x - y) for row, other in zip(a, b) for x, y in zip(row, other))


def random_folder(folder, source, threads, log=None):
    """Makes plain random weights with the engine, in transformers' format. The folder of model.py has logits too far
    apart to compare.
    """
    start = Path(folder) / "start"
    start.mkdir(parents=True, exist_ok=True)
    (start / "config.json").write_bytes((Path(source) / "config.json").read_bytes())
    with Engine(log) as engine:
        engine.call("load", model_dir=str(start), random_init=True, seed=1, device="cpu", precision="fp32", threads=threads)
        engine.call("save", path=str(Path(folder) / "hf"), format="huggingface", dtype="float32")
    return Path(folder) / "hf"


def reference_main():
    import torch

    import reference

    request = json.load(sys.stdin)
    reference.exact_matmuls()
    net, library = reference.load(request["folder"], request["device"], "eager")
    rows = []
    with torch.no_grad():
        for prompt, completion in request["rows"]:
            ids = torch.tensor([prompt + completion], device=request["device"])
            logp = net.logits(ids).log_softmax(-1)[0, len(prompt) - 1 : -1]
            rows.append(logp.gather(1, ids[0, len(prompt) :].unsqueeze(1)).squeeze(1).tolist())
    print(json.dumps({"library": library, "logprobs": rows}))


if __name__ == "__main__":
    reference_main()
