"""Makes a model from a model directory's config.json. Raises EngineError("model") for unknown or invalid
ones.
"""

import json
import os

import torch

from . import gpt2, llama
from .protocol import MODEL, UNREADABLE, EngineError

# Hugging Face's model_type -> (config parser, model class).
ARCHITECTURES = {"gpt2": (gpt2.parse_config, gpt2.GPT2)}
ARCHITECTURES.update(dict.fromkeys(llama.CLASSES, (llama.parse_config, llama.Llama)))
CLASSES = dict(llama.CLASSES, gpt2=gpt2.CLASSES)


def make_model(config, device="cpu", dtype=torch.float32):
    """Returns a model of config's architecture, with uninitialized weights."""
    return ARCHITECTURES[config.architecture][1](config, device, dtype)


def read_config(directory):
    """Reads config.json. Returns (the architecture's Config, the whole JSON object). Raises
    EngineError("unreadable") if reading it fails.
    """
    path = os.path.join(directory, "config.json")
    try:
        with open(path, encoding="utf-8") as file:
            raw = json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError) as error:
        raise EngineError(MODEL, f"{path}: {error}") from None
    except OSError as error:
        raise EngineError(UNREADABLE, f"{path}: {error.strerror or error}") from None
    if not isinstance(raw, dict):
        raise EngineError(MODEL, f"{path}: not a JSON object")
    return parse_config(raw, path), raw


def parse_config(raw, path):
    """Parses the JSON object of a config.json. path names the file in errors."""
    fields = Fields(raw, path)
    known = raw.get("model_type")
    if not isinstance(known, str) or known not in ARCHITECTURES:
        raise fields.error(f"model_type is {known!r}; this engine knows {', '.join(ARCHITECTURES)}")
    classes = raw.get("architectures")
    classes = [] if classes is None else classes
    if not isinstance(classes, list) or any(name not in CLASSES[known] for name in classes):
        raise fields.error(f"architectures is {classes!r}; this engine knows {' and '.join(CLASSES[known])}")
    if raw.get("quantization_config") is not None:
        raise fields.error("quantization_config: quantized weights are not supported")
    return ARCHITECTURES[known][0](fields)


class Fields:
    """Reads checked values from a config.json's object."""

    def __init__(self, raw, path):
        self.raw = raw
        self._path = path

    def error(self, text):
        return EngineError(MODEL, f"{self._path}: {text}")

    def integer(self, *names, default=None):
        """A positive integer: the value of the first name that is set."""
        for name in names:
            value = self.raw.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 31:
                return value
            if value is not None:
                raise self.error(f"{name} must be a positive integer")
        if default is None:
            raise self.error(f"{names[0]} is missing")
        return default

    def number(self, name, default, above=0.0, below=float("inf")):
        value = self.raw.get(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not above < value < below:
            bounds = f"above {above:g}" if below == float("inf") else f"between {above:g} and {below:g}"
            raise self.error(f"{name} must be a number {bounds}")
        return float(value)

    def required_number(self, name):
        """A required number above 0."""
        if self.raw.get(name) is None:
            raise self.error(f"{name} is missing")
        return self.number(name, None)

    def inner(self, name):
        """The fields of a nested object."""
        if not isinstance(self.raw[name], dict):
            raise self.error(f"{name} must be an object")
        return Fields(self.raw[name], f"{self._path}: {name}")

    def flag(self, name, default):
        value = self.raw.get(name)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self.error(f"{name} must be true or false")
        return value

    def fraction(self, name, default):
        return self.number(name, default, 0, 1)

    def choice(self, name, meanings, default):
        """The entry of meanings for the value of a name."""
        value = self.raw.get(name, default)
        if not isinstance(value, str) or value not in meanings:
            raise self.error(f"{name} {value!r} is not supported")
        return meanings[value]

    def require(self, **known):
        """Refuses a flag with another value than the supported one."""
        for name, value in known.items():
            if self.raw.get(name, value) is not value:
                raise self.error(f"{name} = {self.raw[name]!r} is not supported")

    def eos_token_id(self, vocab_size):
        """The first id if there are several, -1 if there is none."""
        eos = self.raw.get("eos_token_id")
        if isinstance(eos, list):
            eos = eos[0] if eos else None
        if eos is None:
            return -1
        if not isinstance(eos, int) or isinstance(eos, bool) or not 0 <= eos < vocab_size:
            raise self.error(f"eos_token_id {eos!r} is not in the vocabulary")
        return eos
