"""Is what the engine computes what others compute? Its log-probabilities beside those of transformers (or, without it, of plain torch
operations) for the same weights and tokens, and the engine's own tests."""

import json
import re
import subprocess
import sys
from pathlib import Path

import model
from engine_client import ROOT, Engine

HERE = Path(__file__).resolve().parent
TESTS = ("test_model.py", "test_generate.py", "test_update.py", "test_loss.py", "test_weights.py")


def compare(folder, device, precisions, threads):
    """For each precision, fp32 first, the largest |difference| of log-probabilities from the reference's, all for the same tokens: those
    that the engine drew in fp32. With "generated", also of those that it saw while it drew them."""
    prompts = [ids[: 5 + 9 * i] for i, ids in enumerate(model.prompts(3, 32, 50257, seed=2))]
    sequences, scored, drawn = [], {}, []
    for precision in precisions:
        with Engine() as engine:
            engine.call("load", model_dir=str(folder), device=device, precision=precision, threads=threads)
            if not sequences:
                out = engine.call("generate", prompts=prompts, num_generations=2, max_new_tokens=24, temperature=1.0, eos_token_id=-1, seed=3)
                sequences = [{"prompt": i // 2, "completion": completion} for i, completion in enumerate(out["completions"])]
                drawn = out["logprobs"]
            scored[precision] = engine.call("logprobs", prompts=prompts, sequences=sequences, temperature=1.0)["logprobs"]
    reference = ask_reference(folder, device, [[prompts[s["prompt"]], s["completion"]] for s in sequences])
    differences = {precision: difference(values, reference["logprobs"]) for precision, values in scored.items()}
    return {"library": reference["library"], "generated": difference(drawn, reference["logprobs"]), **differences}


def ask_reference(folder, device, rows):
    request = {"folder": str(folder), "device": device, "rows": rows}
    command = [sys.executable, str(HERE / "parity.py")]
    answer = subprocess.run(command, cwd=HERE, input=json.dumps(request), capture_output=True, text=True, timeout=300)
    if answer.returncode:
        raise RuntimeError((answer.stderr.strip().splitlines() or ["the reference said nothing"])[-1])
    return json.loads(answer.stdout.splitlines()[-1])


def difference(a, b):
    return max(abs(x - y) for row, other in zip(a, b) for x, y in zip(row, other))


def random_folder(folder, source, threads):
    """Plain random weights from the engine, saved as transformers reads them. The folder of model.py has logits too far apart to compare."""
    start = Path(folder) / "start"
    start.mkdir(parents=True)
    (start / "config.json").write_bytes((Path(source) / "config.json").read_bytes())
    with Engine() as engine:
        engine.call("load", model_dir=str(start), random_init=True, seed=1, device="cpu", precision="fp32", threads=threads)
        engine.call("save", path=str(Path(folder) / "hf"), format="huggingface", dtype="float32")
    return Path(folder) / "hf"


def engine_tests(limit):
    """(passed, failed, last line) of the engine's tests on this machine."""
    folder = ROOT / "node" / "policy" / "engine" / "tests"
    files = [str(folder / name) for name in TESTS if (folder / name).exists()]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, timeout=limit)
    last = (done.stdout.strip().splitlines() or [done.stderr.strip() or "no output"])[-1]
    count = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", last)}
    return count.get("passed", 0), count.get("failed", 0) + count.get("error", 0), last


def reference_main():
    """Reads a request on stdin, prints the reference's log-probabilities."""
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
