"""Saves and restores checkpoints of the whole state, and writes model directories for Hugging Face's
transformers.

A checkpoint is one safetensors file: the weights by name, `adam.exp_avg.*` and `adam.exp_avg_sq.*` after the
first step, `adam.step`, and with float16 the loss scale. Equal states give equal files. Nothing is pickled.
Files appear under their name complete or not at all. Until then a file is NAME.PID.partial.tmp, with the
engine's PID. The next checkpoint in the folder removes the partial files of dead engines.
"""

import json
import math
import os
import re
from dataclasses import asdict
from typing import NamedTuple

import torch

from . import snapshot, weights
from .aside import Aside
from .protocol import CHECKPOINT, UNREADABLE, EngineError

_FIRST, _SECOND, _STEP = "adam.exp_avg.", "adam.exp_avg_sq.", "adam.step"
_RANDOM = "rng.cpu"  # in files of earlier versions: torch's random state, which is unused
_SCALE, _GRADIENTS = "scaler.scale", "scaler.gradients"
_VERSION = "1"
_PARTIAL = re.compile(r"\.(\d+)\.partial\.tmp$")


class Written(NamedTuple):
    bytes: int
    sha256: str  # of the file
    weight_hash: str


class State:
    """The contents of a checkpoint of trainer at this moment: its own tensors, or with copy=True copies
    on the host.

    `copied` tells whether the state is unaffected by further training. Memory may not suffice for a copy.
    """

    def __init__(self, trainer, metadata, copy=False):
        model, adam = trainer.model, trainer.adam
        flats = {"weights": model.flat, _FIRST: adam.exp_avg, _SECOND: adam.exp_avg_sq}
        copied = snapshot.copy(flats) if copy else None
        self.copied = copied is not None
        flats = copied or flats
        self.weights = model.views(flats["weights"])
        self.tensors = dict(self.weights)
        for prefix in (_FIRST, _SECOND):
            if flats[prefix] is not None:
                self.tensors.update({prefix + name: tensor for name, tensor in model.views(flats[prefix]).items()})
        self.tensors[_STEP] = torch.tensor(adam.step_count)
        if trainer.autocast == torch.float16:
            self.tensors[_SCALE] = torch.tensor(trainer.scale, dtype=torch.float64)
            self.tensors[_GRADIENTS] = torch.tensor(trainer.gradients)
        self.header = {
            "swarm_checkpoint": _VERSION,
            "model_type": model.config.architecture,
            "architecture": json.dumps(_architecture(model.config), sort_keys=True),
            "metadata": json.dumps(metadata, sort_keys=True),
        }

    def write(self, path):
        """Writes the state as a checkpoint and returns Written. Raises EngineError("checkpoint") and
        removes the file on failure.
        """
        temporary = f"{path}.{os.getpid()}.partial.tmp"
        try:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            _clear(os.path.dirname(os.path.abspath(path)))
            with Aside() as aside:
                hashed = aside.do(weights.weight_hash, self.weights)
                size, digest = weights.write(temporary, self.tensors, self.header)
            weight_hash = hashed.result()
            os.replace(temporary, path)
            _sync_directory(path)
            return Written(size, digest, weight_hash)
        except OSError as error:
            _remove(temporary)
            raise EngineError(CHECKPOINT, f"{path}: {error.strerror or error}") from None
        except BaseException:
            _remove(temporary)
            raise


def save(trainer, path, metadata):
    """Writes a checkpoint and returns Written. Raises EngineError("checkpoint")."""
    return State(trainer, metadata).write(path)


def restore(trainer, path, sha256=""):
    """Reads a checkpoint into trainer and returns its metadata. Raises EngineError("checkpoint") if the file is
    damaged or missing, and EngineError("unreadable") if reading it fails.

    It checks and reads the whole file once before it changes anything, so that a damaged file leaves the
    state unchanged. A loss scale stays at its initial value if the file has none or the trainer does not use
    it.
    """
    model, adam = trainer.model, trainer.adam
    try:
        with weights.File(path) as file:
            step, scale, metadata = _check(model, file)
            digest = file.sha256()
            if sha256 and digest != sha256:
                raise weights.FormatError(f"{path}: sha256 is {digest}, expected {sha256}")
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
            trainer.set_scale(*scale)
            return metadata
    except weights.FormatError as error:
        raise EngineError(CHECKPOINT, str(error)) from None
    except OSError as error:
        raise EngineError(UNREADABLE, f"{path}: {error.strerror or error}") from None


def save_huggingface(model, raw_config, directory, dtype):
    """Writes config.json and model.safetensors into directory, which may be missing. Returns (bytes, sha256).

    It replaces files of these names. Everything else in and beside directory may be the user's and stays.
    """
    stored = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(dtype, torch.float32)
    name = str(stored).split(".")[1]
    # The name in transformers 5 and in 4.
    config = dict(raw_config, **model.config.saved_fields(), dtype=name, torch_dtype=name)
    directory = os.path.abspath(directory)
    paths = [os.path.join(directory, file) for file in ("config.json", "model.safetensors")]
    partial = [f"{path}.{os.getpid()}.partial.tmp" for path in paths]
    try:
        os.makedirs(directory, exist_ok=True)
        # transformers refuses a file that does not name the framework that wrote it.
        result = weights.write(partial[1], model.tensors, {"format": "pt"}, stored)
        with open(partial[0], "w", encoding="utf-8") as file:
            json.dump(config, file, indent=2, sort_keys=True)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        for temporary, path in zip(partial, paths):
            os.replace(temporary, path)
        _sync_directory(paths[0])
        _sync_directory(directory)
        return result
    except OSError as error:
        raise EngineError(CHECKPOINT, f"{directory}: {error.strerror or error}") from None
    finally:
        for temporary in partial:
            _remove(temporary)


def _clear(directory):
    """Removes the partial files in directory that dead engines left."""
    for name in os.listdir(directory):
        found = _PARTIAL.search(name)
        if found and (int(found.group(1)) == os.getpid() or not _runs(int(found.group(1)))):
            _remove(os.path.join(directory, name))


def _runs(pid):
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's process
        pass
    return True


def _architecture(config):
    """The fields of a config in a checkpoint. For GPT-2 and Qwen2 they are as before other architectures
    existed.
    """
    fields = asdict(config)
    del fields["eos_token_id"]
    if fields.get("architecture") == "qwen2":
        del fields["architecture"]
    if fields.get("scaling", ...) is None:
        del fields["scaling"]
    return fields


def _describe(kind, fields):
    """Short description of a model for an error message."""
    known = (("layers", "layers"), ("width", "width"), ("heads", "heads"), ("vocab_size", "vocabulary"), ("context_length", "context"))
    return f"{kind} ({', '.join(f'{word} {fields[name]}' for name, word in known if name in fields)})"


def _other_model(header, found, config):
    """Error text for a checkpoint of another model than the loaded one."""
    # A checkpoint of protocol 2 has no model_type.
    kind = header.get("model_type", "qwen2" if "rope_theta" in found else "gpt2")
    loaded = _architecture(config)
    names = sorted(name for name in {*found, *loaded} if found.get(name) != loaded.get(name))
    text = f"it is of another model, {_describe(kind, found)}, than the loaded one, {_describe(config.architecture, loaded)}"
    if kind != config.architecture:
        return text
    return text + ": " + ", ".join(f"{name} is {found.get(name)!r} instead of {loaded.get(name)!r}" for name in names)


def _check(model, file):
    """Raises FormatError unless file is a checkpoint for this model.

    Returns Adam's step, the loss scale for Trainer.set_scale, and the metadata.
    """
    header = file.metadata
    if header.get("swarm_checkpoint") != _VERSION:
        raise weights.FormatError(f"{file.path}: not a checkpoint of this engine")
    try:
        architecture, metadata = json.loads(header["architecture"]), json.loads(header["metadata"])
    except (KeyError, ValueError, RecursionError) as error:
        raise weights.FormatError(f"{file.path}: broken metadata: {error}") from None
    if not isinstance(architecture, dict):
        raise weights.FormatError(f"{file.path}: broken metadata: architecture is no object")
    if architecture != _architecture(model.config):
        raise weights.FormatError(f"{file.path}: {_other_model(header, architecture, model.config)}")
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
    scaled = _SCALE in file.entries
    for name, dtype, wanted in ((_STEP, "I64", True), (_SCALE, "F64", scaled), (_GRADIENTS, "I64", scaled)):
        entry = file.entries.get(name)
        if wanted != (entry is not None) or (entry and (entry.dtype, entry.shape) != (dtype, ())):
            raise weights.FormatError(f"{file.path}: {name} is missing or not as expected")
    extra = set(file.entries) - set(expected) - {_STEP, _RANDOM, _SCALE, _GRADIENTS}
    if extra:
        raise weights.FormatError(f"{file.path}: {min(extra)} does not belong to a checkpoint")
    step = int(_number(file, _STEP, torch.int64))
    if step < 0 or (step > 0 and len(expected) == len(model.shapes)):
        raise weights.FormatError(f"{file.path}: adam.step is {step}, which does not fit the rest")
    scale = ()
    if scaled:
        scale = (float(_number(file, _SCALE, torch.float64)), int(_number(file, _GRADIENTS, torch.int64)))
        if not (1 <= scale[0] < math.inf and scale[1] >= 0):
            raise weights.FormatError(f"{file.path}: the loss scale is {scale[0]} after {scale[1]} gradients")
    return step, scale, metadata


def _number(file, name, dtype):
    number = torch.zeros((), dtype=dtype)
    file.read(name, number)
    return number


def _sync_directory(path):
    """Syncs the directory entry of a file or directory to disk."""
    fd = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _remove(path):
    try:
        os.unlink(path)
    except OSError:
        pass
