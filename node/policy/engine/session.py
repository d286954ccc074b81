"""One engine's state and calls: the loaded model, and the effect of each request of protocol.go.

Every call takes a parsed request and returns the result object of protocol.go as a dict, or raises. Must not
read or write the pipes, which belong to serve.py.
"""

import math
import mmap
import os
import sys
import time
from dataclasses import asdict

import torch

from . import architecture, checkpoint, environment, memory, precision, protocol, shortage, snapshot, weights
from .adam import Adam
from .generate import Static, generate
from .graphs import Graphs
from .offload import Parking
from .protocol import BAD_REQUEST, DEVICE, EngineError
from .update import Trainer


class Session:
    def __init__(self):
        self._start_rss, self._start_anonymous = memory.read_resident()
        self._meter = memory.Meter()
        self._writer = snapshot.Writer()
        self._static = self._reduced = None
        self._forget()
        self._device = None
        self._cap = 0

    def _forget(self):
        """Drops the model and everything that belongs to it."""
        self._drop_buffers()
        self._load = self._raw_config = self._trainer = self._weights = self._static = None
        self._reference = self._reference_weights = None
        self._param_offload = False

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
            "anonymous_bytes": self._start_anonymous,
            "pid": os.getpid(),
        }

    def load(self, request):
        """Loads a model. Drops the previous one first. After a failure no model is loaded."""
        began = time.perf_counter()
        device = open_device(request)
        precision.check(request.precision, device)
        config, raw = architecture.read_config(request.model_dir)
        self._writer.settle()
        if self._load is not None:
            # At the first load this would collect the objects that the engine host froze, and so copy every page that
            # forks share.
            memory.thaw()
        self._forget()
        memory.trim()
        self._device, self._cap = device, request.memory_cap_bytes
        self._meter.load(device)
        measured = self._meter.begin()
        if request.threads:
            set_threads(request.threads)
        warm_blas()
        if request.gradient_checkpointing:
            memory.prefer_small()
        if device.type == "cuda":
            torch.cuda.set_device(device)  # otherwise page-locked memory would also create a context on the first device
            precision.set_matmul(request.precision)
            precision.avoid_cudnn_attention()
            memory.set_cap(device, self._cap)
        model = make_model(config, request, device)
        adam = Adam(
            request.adam_beta1, request.adam_beta2, request.adam_epsilon, request.weight_decay, request.optimizer_offload
        )
        autocast = precision.REDUCED.get(request.precision) if device.type == "cuda" else None
        trainer = Trainer(model, adam, request.gradient_checkpointing, autocast)
        self._set_graphs(request.cuda_graphs)
        difference = self._self_test(trainer) if request.self_test else 0.0
        limit = precision.judge(difference, autocast, request.precision, device, request.cuda_graphs and device.type == "cuda")
        self._load, self._raw_config, self._trainer = request, raw, trainer
        self._weights, self._param_offload = Parking(model), request.param_offload
        self._drop_buffers()  # of the self-test: frozen, they could stay forever
        memory.freeze()
        return {
            "architecture": config.architecture,
            "parameters": model.flat.numel(),
            "vocab_size": config.vocab_size,
            "context_length": config.context_length,
            "eos_token_id": config.eos_token_id,
            "seconds": time.perf_counter() - began,
            "self_test_max_abs_diff": difference,
            "self_test_limit": limit,
            "memory": self._meter.status(measured),
        }

    def generate(self, request):
        began, measured = time.perf_counter(), self._meter.begin()
        trainer = self._loaded()
        config = trainer.model.config
        protocol.check_generate(request, config.vocab_size, config.context_length)
        self._weights.unpark()
        result = self._sample(trainer, request, trainer.group.span(len(request.prompts) * request.num_generations))
        return {
            "completions": result.tokens,
            "logprobs": result.logprobs,
            "terminated": result.terminated,
            "entropy": result.entropy,
            "seconds": time.perf_counter() - began,
            "prefill_tokens": result.prefill_tokens,
            "new_tokens": result.new_tokens,
            "memory": self._meter.status(measured),
        }

    def update(self, request):
        began, measured = time.perf_counter(), self._meter.begin()
        trainer = self._loaded()
        self._check_scored(request)
        self._weights.unpark()
        reference = trainer.score(request, self._reference_model()) if request.beta and request.sequences else None
        trainer.adam.unpark(self._device)
        outcome = trainer.update(request, reference)
        result = asdict(outcome)
        result["seconds"] = time.perf_counter() - began
        result["memory"] = self._meter.status(measured)
        return result

    def logprobs(self, request):
        trainer = self._loaded()
        self._check_scored(request)
        self._weights.unpark()
        return {"logprobs": [None if row is None else row.tolist() for row in trainer.score(request)]}

    def save(self, request):
        """Saves the state or the weights. In the background it answers once it has copied the state."""
        began = time.perf_counter()
        trainer = self._loaded()
        self._writer.settle()
        if request.format != "checkpoint":
            size, digest = checkpoint.save_huggingface(trainer.model, self._raw_config, request.path, request.dtype)
            written = checkpoint.Written(size, digest, weights.weight_hash(trainer.model.tensors))
            return _saved(written, time.perf_counter() - began)
        state = checkpoint.State(trainer, request.metadata, copy=request.background)
        if not state.copied:
            return _saved(state.write(request.path), time.perf_counter() - began)
        pause = time.perf_counter() - began
        self._writer.begin(lambda: _saved(state.write(request.path), time.perf_counter() - began), pause)
        return _pending(pause)

    def saved(self, request):
        """The result of the background save. Only rank 0 saves."""
        return self._writer.outcome(request.wait) or _pending(self._writer.pause)

    def restore(self, request):
        trainer = self._loaded()
        self._writer.settle()
        metadata = checkpoint.restore(trainer, request.path, request.sha256)
        return {
            "metadata": metadata,
            "weight_hash": weights.weight_hash(trainer.model.tensors),
            "step": trainer.adam.step_count,
        }

    def configure(self, request):
        """Changes memory settings of the loaded model for later calls. Results do not change."""
        trainer = self._loaded()
        if request.gradient_checkpointing is not None:
            trainer.gradient_checkpointing = request.gradient_checkpointing
            if request.gradient_checkpointing:
                memory.prefer_small()
        if request.optimizer_offload is not None:
            trainer.adam.set_offload(request.optimizer_offload, self._device)
        if request.param_offload is not None:
            self._param_offload = request.param_offload
        if request.cuda_graphs is not None:
            self._set_graphs(request.cuda_graphs)
        memory.trim()
        if request.memory_cap_bytes is not None:
            self._cap = request.memory_cap_bytes
            if self._device.type == "cuda":
                memory.set_cap(self._device, self._cap)
        return self._meter.status()

    def memory(self, _):
        return self._meter.status()

    def trim(self, _):
        """Frees everything that the next call can allocate again or move back. With param_offload that is everything
        on the device.
        """
        self._drop_buffers()
        if self._trainer is not None and self._param_offload:
            self._weights.park()
            if self._reference_weights is not None:
                self._reference_weights.park()
            self._trainer.adam.park(self._device)
        memory.trim()
        return self._meter.status()

    def shortage(self, error):
        """The Shortage object for an out-of-memory exception. Call it while handling the exception.

        For a shortage of host memory it waits for the background save, which then no longer uses memory.
        """
        found = shortage.describe(error, self._device, self._cap)
        if found["where"] == "host":
            self._writer.settle()
            memory.prefer_small()
        return found

    def release(self):
        """Frees what a failed call has left. After a failed load no model is loaded.

        Raises the device's error, if any: after a fault that ends its context, every later call of this
        process fails.
        """
        if self._trainer is None:
            self._forget()
        else:
            self._drop_buffers()
            self._trainer.model.drop_gradients()
        memory.wait_for(self._device)
        memory.trim()

    def _loaded(self):
        if self._trainer is None:
            raise EngineError(BAD_REQUEST, "no model is loaded")
        return self._trainer

    def _check_scored(self, request):
        config = self._trainer.model.config
        protocol.check_scored(request, config.vocab_size, config.context_length)

    def _reference_model(self):
        """The weights as first loaded. They are read again from their files, because training may have
        changed the model's.
        """
        if self._reference is None:
            reference = make_model(self._trainer.model.config, self._load, self._device)
            for leaf in reference.leaves:
                leaf.requires_grad_(False)
            self._reference, self._reference_weights = reference, Parking(reference)
        self._reference_weights.unpark()
        return self._reference

    def _set_graphs(self, wanted):
        """Sets up steps of fixed shape and their graphs, on CUDA only.

        Elsewhere decoding takes steps of exact size, which cost the host nothing extra.
        """
        self._drop_buffers()
        self._static = Static(Graphs(self._device) if wanted else None) if self._device.type == "cuda" else None

    def _drop_buffers(self):
        """Frees the buffers that sampling keeps between calls, which refer to the present location of the
        weights.
        """
        self._reduced = None
        if self._static is not None:
            self._static.drop()

    def _sample(self, trainer, request, span=None):
        model = trainer.model
        if trainer.autocast is not None:
            if self._reduced is None:
                self._reduced = precision.Reduced(model, trainer.autocast)
            model = self._reduced.refresh()
        result = generate(model, request, self._static, span)
        if self._static is None or not self._static.keeps:
            self._reduced = None
        return result

    def _self_test(self, trainer):
        """Largest difference of log-probabilities between sampling and scoring, on 2 random prompts of
        unequal length with 2 × 8 tokens each.
        """
        config = trainer.model.config
        generator = torch.Generator().manual_seed(0)
        lengths = [max(1, min(length, config.context_length - 1)) for length in (5, 9)]
        prompts = [torch.randint(config.vocab_size, (n,), generator=generator).tolist() for n in lengths]
        sampled = self._sample(trainer, protocol.Generate(prompts, 2, 8))
        sequences = [protocol.Sequence(i // 2, tokens) for i, tokens in enumerate(sampled.tokens)]
        scored = trainer.score(protocol.Logprobs(prompts, sequences))
        differences = [abs(a - b) for ours, theirs in zip(sampled.logprobs, scored) for a, b in zip(ours, theirs.tolist())]
        return max(differences, key=lambda difference: (math.isnan(difference), difference))  # NaN counts as the largest


def _saved(written, seconds):
    """SaveResult of protocol.go. In a foreground save, pause equals seconds."""
    return dict(written._asdict(), pending=False, pause=seconds, seconds=seconds)


def _pending(pause):
    return dict(pending=True, pause=pause, bytes=0, sha256="", weight_hash="", seconds=0.0)


def make_model(config, request, device):
    dtype = torch.float64 if request.precision == "float64" else torch.float32
    model = architecture.make_model(config, device, dtype)
    if request.random_init:
        model.initialise(request.seed)
    else:
        weights.load(model, request.model_dir)
    return model


def open_device(request):
    """Checks that the device exists. Raises EngineError("device")."""
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
    """Sets the intra-op threads of torch and of OpenBLAS, which has its own setting."""
    torch.set_num_threads(count)
    library = environment.loaded_openblas()
    if library is not None:
        library.openblas_set_num_threads(count)


BLAS_BUFFER = 128 << 20  # bytes that OpenBLAS's AVX-512 kernels need; its other kernels need less
_warm = False


def warm_blas():
    """Makes OpenBLAS allocate its work buffer now. If a later allocation failed, it would retry forever
    instead of failing.

    Raises MemoryError if there is no memory for the buffer.
    """
    global _warm
    if not _warm and environment.loaded_openblas() is not None:
        try:
            mmap.mmap(-1, BLAS_BUFFER).close()
        except OSError as error:
            raise MemoryError(f"OpenBLAS: you tried to allocate {BLAS_BUFFER} bytes") from error
    _warm = True
    square = torch.ones(512, 512)
    torch.mm(square, square)


def blas():
    """The name of the BLAS behind torch.mm, with OpenBLAS's choice of kernels. A bad choice is several
    times slower.
    """
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
