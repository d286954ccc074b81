"""Saving and restoring: checkpoints of the whole state, and model directories for Hugging Face's transformers.

A checkpoint is one safetensors file: the weights by name, `adam.exp_avg.*` and `adam.exp_avg_sq.*` once a step has
been taken, `adam.step`, and torch's random state. Nothing is pickled. Files appear under their name complete or not
at all.
"""

import json
import os
import shutil
from dataclasses import asdict

import torch

from . import weights
from .protocol import CHECKPOINT, EngineError

_FIRST, _SECOND, _STEP, _RANDOM = "adam.exp_avg.", "adam.exp_avg_sq.", "adam.step", "rng.cpu"
_VERSION = "1"


def save(model, adam, path, metadata):
    """Writes a checkpoint; returns (bytes, sha256). Raises EngineError("checkpoint")."""
    tensors = dict(model.tensors)
    if adam.exp_avg is not None:
        tensors.update({_FIRST + name: tensor for name, tensor in model.views(adam.exp_avg).items()})
        tensors.update({_SECOND + name: tensor for name, tensor in model.views(adam.exp_avg_sq).items()})
    tensors[_STEP] = torch.tensor(adam.step_count)
    tensors[_RANDOM] = torch.get_rng_state()
    header = {
        "swarm_checkpoint": _VERSION,
        "architecture": json.dumps(_architecture(model), sort_keys=True),
        "metadata": json.dumps(metadata, sort_keys=True),
    }
    temporary = path + ".tmp"
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        result = weights.write(temporary, tensors, header)
        os.replace(temporary, path)
        _sync_directory(path)
        return result
    except OSError as error:
        _remove(temporary)
        raise EngineError(CHECKPOINT, f"{path}: {error.strerror or error}") from None


def restore(model, adam, path, sha256=""):
    """Reads a checkpoint into model and adam; returns its metadata. Raises EngineError("checkpoint").

    The file is checked and read through once before anything is changed, so a broken one leaves the state as it was.
    """
    try:
        with weights.File(path) as file:
            step, metadata = _check(model, file)
            digest = file.sha256()
            if sha256 and digest != sha256:
                raise weights.FormatError(f"{path}: sha256 is {digest}, expected {sha256}")
            random_state = torch.empty(file.entries[_RANDOM].shape, dtype=torch.uint8)
            file.read(_RANDOM, random_state)
            _set_random(random_state, path)
            has_moments = any(name.startswith(_FIRST) for name in file.entries)
            if has_moments:
                adam.prepare(model.flat, model.device)
            for name, tensor in model.tensors.items():
                file.read(name, tensor)
            if has_moments:
                for prefix, flat in ((_FIRST, adam.exp_avg), (_SECOND, adam.exp_avg_sq)):
                    for name, tensor in model.views(flat).items():
                        file.read(prefix + name, tensor)
            else:
                adam.reset()
            adam.step_count = step
            return metadata
    except weights.FormatError as error:
        raise EngineError(CHECKPOINT, str(error)) from None
    except OSError as error:
        raise EngineError(CHECKPOINT, f"{path}: {error.strerror or error}") from None


def save_huggingface(model, raw_config, directory, dtype):
    """Puts a directory with config.json and model.safetensors in place of directory; returns (bytes, sha256)."""
    stored = torch.float16 if dtype == "float16" else torch.float32
    name = str(stored).split(".")[1]
    config = dict(raw_config, **model.config.saved_fields(), dtype=name, torch_dtype=name)  # 5's name and 4's
    directory = os.path.abspath(directory)
    temporary, old = directory + ".tmp", directory + ".old"
    try:
        os.makedirs(os.path.dirname(directory), exist_ok=True)
        _remove(temporary)
        os.mkdir(temporary)
        # transformers refuses a file that doesn't say which framework wrote it.
        result = weights.write(os.path.join(temporary, "model.safetensors"), model.tensors, {"format": "pt"}, stored)
        with open(os.path.join(temporary, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file, indent=2, sort_keys=True)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        _sync_directory(os.path.join(temporary, "config.json"))
        _remove(old)
        if os.path.lexists(directory):
            os.rename(directory, old)
        os.rename(temporary, directory)
        _sync_directory(directory)
        _remove(old)
        return result
    except OSError as error:
        _remove(temporary)
        raise EngineError(CHECKPOINT, f"{directory}: {error.strerror or error}") from None


def _architecture(model):
    config = asdict(model.config)
    del config["eos_token_id"]
    return config


def _check(model, file):
    """Raises FormatError unless file is a checkpoint for this model; returns (Adam's step, metadata)."""
    header = file.metadata
    if header.get("swarm_checkpoint") != _VERSION:
        raise weights.FormatError(f"{file.path}: not a checkpoint of this engine")
    try:
        architecture, metadata = json.loads(header["architecture"]), json.loads(header["metadata"])
    except (KeyError, ValueError, RecursionError) as error:
        raise weights.FormatError(f"{file.path}: broken metadata: {error}") from None
    if architecture != _architecture(model):
        raise weights.FormatError(f"{file.path}: the checkpoint is of another architecture than the loaded model")
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise weights.FormatError(f"{file.path}: broken metadata: not an object of strings")
    expected = dict(model.shapes)
    if any(name.startswith(_FIRST) for name in file.entries):
        expected.update({prefix + name: shape for prefix in (_FIRST, _SECOND) for name, shape in model.shapes.items()})
    for name, shape in expected.items():
        entry = file.entries.get(name)
        if entry is None:
            raise weights.FormatError(f"{file.path}: {name} is missing")
        if entry.shape != shape or entry.dtype not in ("F32", "F64"):
            found = f"{entry.dtype}{list(entry.shape)}"
            raise weights.FormatError(f"{file.path}: {name} is {found}, expected {list(shape)}")
    for name, dtype, dimensions in ((_STEP, "I64", 0), (_RANDOM, "U8", 1)):
        entry = file.entries.get(name)
        if entry is None or entry.dtype != dtype or len(entry.shape) != dimensions:
            raise weights.FormatError(f"{file.path}: {name} is missing or not as expected")
    extra = set(file.entries) - set(expected) - {_STEP, _RANDOM}
    if extra:
        raise weights.FormatError(f"{file.path}: {min(extra)} does not belong to a checkpoint")
    step = torch.zeros((), dtype=torch.int64)
    file.read(_STEP, step)
    if int(step) < 0 or (int(step) > 0 and len(expected) == len(model.shapes)):
        raise weights.FormatError(f"{file.path}: adam.step is {int(step)}, which does not fit the rest")
    return int(step), metadata


def _set_random(state, path):
    try:
        torch.set_rng_state(state)
    except (RuntimeError, TypeError) as error:
        line = str(error).splitlines()[0]
        raise weights.FormatError(f"{path}: broken random state: {line}") from None


def _sync_directory(path):
    """Makes the name of a file or directory durable."""
    fd = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        try:
            os.unlink(path)
        except OSError:
            pass
