"""Shared by all rows: the program, the engine of this tree, and the form of an answer."""

import json
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
POLICY = os.path.join(ROOT, "node", "policy")
PROGRAM = os.environ.get("SWARM_PROGRAM", os.path.join(ROOT, "bin", "swarm"))


def swarm(*arguments, text=None, timeout=240):
    """Returns the output of `swarm ARGUMENTS`. text is its input."""
    done = subprocess.run([PROGRAM, *arguments], input=text, capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise OSError(f"swarm {' '.join(arguments)}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


def swarm_json(*arguments, **options):
    return json.loads(swarm(*arguments, "-o", "json", **options))


def engine_path():
    """Makes the engine and the helpers of its tests importable, with the settings that the engine starts with."""
    sys.path[:0] = [POLICY, os.path.join(POLICY, "engine", "tests")]
    from engine import environment

    environment.prepare(os.environ)


TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


def character_tokenizer(words, pad, **options):
    """A tokenizer of transformers that splits text into characters. words: {token: id}, with "<eos>"; others become pad."""
    import tokenizers
    import transformers

    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token=pad))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    inner.decoder = tokenizers.decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token=pad, eos_token="<eos>", unk_token=pad, padding_side="left", chat_template=TEMPLATE, **options
    )


def advantages_in_go(groups, epsilon, tolerance, scratch):
    """The largest relative difference between a peer's advantages and the program's, by the program's own code.

    groups is a list of {"rewards", "advantages"}. The peer divides by the standard deviation + epsilon, and with that
    term both must be equal to tolerance. Returns None if go is not on PATH.
    """
    if shutil.which("go") is None:
        return None
    path = os.path.join(scratch, "advantages.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"epsilon": epsilon, "tolerance": tolerance, "groups": groups}, file)
    command = ["go", "test", "-count=1", "-v", "-run", "^TestAdvantagesOfAPeer$", "./node/sapo"]
    done = subprocess.run(command, cwd=ROOT, env=dict(os.environ, SWARM_TEST_ADVANTAGES=path), capture_output=True, text=True, timeout=150)
    found = re.search(r"largest relative difference ([0-9.e+-]+)", done.stdout)
    if done.returncode or not found:
        raise ValueError(f"advantages differ: {(done.stdout + done.stderr).strip()[-300:]}")
    return float(found.group(1))


def relative(found, expected, least=0.0):
    """The difference, relative to expected or to least if that is larger."""
    scale = max(abs(expected), least)
    return abs(found - expected) / scale if scale else abs(found)


def answer(measured, verdict, note=""):
    """Prints the row's answer. verdict is one of peers' verdicts (__main__.py)."""
    print("\n" + json.dumps({"measured": measured, "verdict": verdict, "note": note}), flush=True)  # libraries print dots


def cannot(error):
    """The answer of a row whose peer cannot be imported here. Every other error fails the row."""
    answer("", "cannot run", " ".join(f"{type(error).__name__}: {error}".split())[:300])
