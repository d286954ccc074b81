"""Results of `swarm plan` for present and absent cards."""

import json
import subprocess

SHARES = ("static", "lease", "lease+offload")


def plan(program, home, options):
    """Returns the plan as JSON. Raises RuntimeError with the program's own error line."""
    done = subprocess.run([program, "--home", str(home), "plan", *options, "-o", "json"], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(first_line(done.stderr) or f"swarm plan ended with {done.returncode}")
    return json.loads(done.stdout)


def settings(share):
    """Returns the flags of a way of sharing."""
    out = ["--set", "share=" + share.split("+")[0]]
    if "+offload" in share:
        out += ["--set", "optimizer_offload=true", "--set", "param_offload=true"]
    return out


def most_nodes(program, home, model, memory, share, device):
    """Returns the number of nodes that fit on a card of `memory` bytes (None: this one), and the plan; (0, why) if
    none fits.
    """
    options = ["--model", str(model), "--config", "4loc4ext", "--nodes", "max", "--set", "swarm_size=1000", *settings(share)]
    options += ["--gpu-memory", f"{memory / 1e9:g}GB"] if memory else ["--device", device]
    try:
        answer = plan(program, home, options)
    except RuntimeError as error:
        if "does not fit" in str(error):
            return 0, {"why": str(error)}
        raise
    return answer["nodes"], answer


def first_line(text):
    lines = [line for line in text.strip().splitlines() if line.startswith("Error")] or text.strip().splitlines()
    return lines[0] if lines else ""
