"""One engine's state and the calls on it: what is loaded, and what each request of protocol.go does to it.

Every call takes a parsed request and returns the result object of protocol.go as a dict, or raises. Must not read or
write the pipes: that is serve.py's.
"""

import os
import sys
import time
from dataclasses import asdict

import torch

from . import checkpoint, environment, memory, protocol, weights
from .adam import Adam
from .generate import generate
from .model import GPT2, read_config
from .protocol import BAD_REQUEST, DEVICE, EngineError
from .update import Trainer

_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Session:
    def __init__(self):
        self._start_rss = memory.read_rss()
        self._load = None
        self._raw_config = None
        self._trainer = None
        self._reference = None
        self._device = None

    def hello(self, _):
        cuda = torch.cuda.is_available()
        return {
            "protocol": protocol.VERSION,
            "torch": torch.__version__,
            "python": sys.version.split()[0],
            "blas": blas(),
            "cuda": cuda,
            "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if cuda else [],
            "rss_bytes": self._start_rss,
            "pid": os.getpid(),
        }

    def load(self, request):
        """Loads a model. The one loaded before is dropped first; after a failure there is none."""
        began = time.perf_counter()
        device = open_device(request)
        config, raw = read_config(request.model_dir)
        self._trainer = self._reference = None
        memory.trim()
        if request.threads:
            set_threads(request.threads)
        warm_blas()
        if device.type == "cuda":
            tf32 = request.precision == "tf32"
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
            torch.cuda.reset_peak_memory_stats(device)
            cap = request.memory_cap_bytes
            total = torch.cuda.get_device_properties(device).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, cap / total) if cap else 1.0, device)
        model = make_model(config, request, device)
        adam = Adam(request.adam_beta1, request.adam_beta2, request.adam_epsilon, request.weight_decay)
        autocast = _AUTOCAST.get(request.precision) if device.type == "cuda" else None
        trainer = Trainer(model, adam, request.gradient_checkpointing, autocast)
        difference = self_test(trainer) if request.self_test else 0.0
        self._load, self._raw_config, self._trainer, self._device = request, raw, trainer, device
        return {
            "architecture": "gpt2",
            "parameters": model.flat.numel(),
            "vocab_size": config.vocab_size,
            "context_length": config.context_length,
            "eos_token_id": config.eos_token_id,
            "seconds": time.perf_counter() - began,
            "self_test_max_abs_diff": difference,
            "memory": memory.status(device),
        }

    def generate(self, request):
        began = time.perf_counter()
        trainer = self._loaded()
        config = trainer.model.config
        protocol.check_generate(request, config.vocab_size, config.context_length)
        with trainer.precision():
            result = generate(trainer.model, request)
        return {
            "completions": result.tokens,
            "logprobs": result.logprobs,
            "terminated": result.terminated,
            "entropy": result.entropy,
            "seconds": time.perf_counter() - began,
            "prefill_tokens": result.prefill_tokens,
            "new_tokens": result.new_tokens,
            "memory": memory.status(self._device),
        }

    def update(self, request):
        began = time.perf_counter()
        trainer = self._loaded()
        self._check_scored(request)
        reference = trainer.score(request, self._reference_model()) if request.beta and request.sequences else None
        outcome = trainer.update(request, reference)
        result = asdict(outcome)
        result["seconds"] = time.perf_counter() - began
        result["memory"] = memory.status(self._device)
        return result

    def logprobs(self, request):
        trainer = self._loaded()
        self._check_scored(request)
        return {"logprobs": [row.tolist() for row in trainer.score(request)]}

    def save(self, request):
        began = time.perf_counter()
        trainer = self._loaded()
        if request.format == "checkpoint":
            size, digest = checkpoint.save(trainer.model, trainer.adam, request.path, request.metadata)
        else:
            size, digest = checkpoint.save_huggingface(trainer.model, self._raw_config, request.path, request.dtype)
        return {
            "bytes": size,
            "sha256": digest,
            "weight_hash": weights.weight_hash(trainer.model),
            "seconds": time.perf_counter() - began,
        }

    def restore(self, request):
        trainer = self._loaded()
        metadata = checkpoint.restore(trainer.model, trainer.adam, request.path, request.sha256)
        return {
            "metadata": metadata,
            "weight_hash": weights.weight_hash(trainer.model),
            "step": trainer.adam.step_count,
        }

    def configure(self, request):
        """Changes memory settings of the loaded model; no result changes with them."""
        trainer = self._loaded()
        if request.gradient_checkpointing is not None:
            trainer.gradient_checkpointing = request.gradient_checkpointing
        return memory.status(self._device)

    def memory(self, _):
        return memory.status(self._device)

    def trim(self, _):
        memory.trim()
        return memory.status(self._device)

    def release(self):
        """Frees what a failed call has left behind."""
        if self._trainer is not None:
            self._trainer.model.drop_gradients()
        memory.trim()

    def _loaded(self):
        if self._trainer is None:
            raise EngineError(BAD_REQUEST, "no model is loaded")
        return self._trainer

    def _check_scored(self, request):
        config = self._trainer.model.config
        protocol.check_scored(request, config.vocab_size, config.context_length)

    def _reference_model(self):
        """The weights as first loaded: read again from where they came, since training may have changed ours."""
        if self._reference is None:
            reference = make_model(self._trainer.model.config, self._load, self._device)
            for tensor in reference.tensors.values():
                tensor.requires_grad_(False)
            self._reference = reference
        return self._reference


def make_model(config, request, device):
    dtype = torch.float64 if request.precision == "float64" else torch.float32
    model = GPT2(config, device, dtype)
    if request.random_init:
        model.initialise(request.seed)
    else:
        weights.load(model, request.model_dir)
    return model


def open_device(request):
    """Checks that the device is there. Raises EngineError("device")."""
    name = request.device
    kind, _, index = name.partition(":")
    if name != "cpu" and (kind != "cuda" or (index and not index.isdecimal()) or name.endswith(":")):
        raise EngineError(BAD_REQUEST, f"device must be cpu, cuda or cuda:N, not {name!r}")
    if kind == "cuda":
        if not torch.cuda.is_available():
            raise EngineError(DEVICE, f"{name}: torch {torch.__version__} finds no CUDA device")
        if int(index or 0) >= torch.cuda.device_count():
            raise EngineError(DEVICE, f"{name}: there are {torch.cuda.device_count()} CUDA devices")
        return torch.device("cuda", int(index or 0))
    return torch.device("cpu")


def set_threads(count):
    """Intra-op threads of torch and of OpenBLAS, which keeps a count of its own."""
    torch.set_num_threads(count)
    library = environment.loaded_openblas()
    if library is not None:
        library.openblas_set_num_threads(count)


def warm_blas():
    """Makes OpenBLAS take its work buffers now: when it can't get them later it retries for ever instead of failing."""
    square = torch.ones(512, 512)
    torch.mm(square, square)


def blas():
    """Names the BLAS behind torch.mm, with OpenBLAS's choice of kernels: a bad choice is several times slower."""
    library = environment.loaded_openblas()
    if library is not None:
        return f"openblas {environment.openblas_core(library)}".strip()
    if torch.backends.mkl.is_available():
        return "mkl"
    for item in torch.__config__.show().replace("\n", ",").split(","):
        name, _, value = item.strip().partition("=")
        if name == "BLAS_INFO":
            return value
    return "unknown"


def self_test(trainer):
    """Largest difference of log-probabilities between sampling and scoring; 2 unequal random prompts, 2 × 8 tokens."""
    config = trainer.model.config
    generator = torch.Generator().manual_seed(0)
    lengths = [max(1, min(length, config.context_length - 1)) for length in (5, 9)]
    prompts = [torch.randint(config.vocab_size, (n,), generator=generator).tolist() for n in lengths]
    with trainer.precision():
        sampled = generate(trainer.model, protocol.Generate(prompts, 2, 8))
    sequences = [protocol.Sequence(i // 2, tokens) for i, tokens in enumerate(sampled.tokens)]
    scored = trainer.score(protocol.Logprobs(prompts, sequences))
    pairs = zip(sampled.logprobs, scored)
    return max(abs(a - b) for ours, theirs in pairs for a, b in zip(ours, theirs.tolist()))
