"""Requests and their parsing: the engine's side of node/policy/protocol.go, version 6. Must not import
torch.

Every parse function takes the decoded `params` of one call and returns a dataclass with the same field names
as the Go type, or raises EngineError("bad_request"). Checks that need the model (token ids, lengths) are in
`check_*`.
"""

import json
import math
from dataclasses import dataclass, field
from typing import Dict, List, Optional

VERSION = 6
MAX_LINE = 64 << 20

BAD_REQUEST = "bad_request"
MODEL = "model"
DEVICE = "device"
SELF_TEST = "self_test"
OUT_OF_MEMORY = "out_of_memory"
CHECKPOINT = "checkpoint"
UNREADABLE = "unreadable"
NOT_FINITE = "not_finite"
INTERNAL = "internal"

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "float64")
LOSS_TYPES = ("bnpo", "grpo", "dr_grpo")
CORRECTIONS = ("", "tapered", "ftis")


class EngineError(Exception):
    """An error answer: a kind of protocol.go, one line of text, and another rank's report of a shortage."""

    def __init__(self, kind, message, shortage=None):
        super().__init__(message)
        self.kind = kind
        self.shortage = shortage


def bad(message):
    return EngineError(BAD_REQUEST, message)


@dataclass
class Load:
    model_dir: str
    random_init: bool = False
    seed: int = 0
    device: str = "cpu"
    precision: str = "fp32"
    threads: int = 0
    gradient_checkpointing: bool = False
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-8
    weight_decay: float = 0.0
    memory_cap_bytes: int = 0
    self_test: bool = False
    optimizer_offload: bool = False
    param_offload: bool = False
    cuda_graphs: bool = False
    ranks: int = 1


@dataclass
class Generate:
    prompts: List[List[int]]
    num_generations: int
    max_new_tokens: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    eos_token_id: int = -1
    stop_token_ids: List[int] = field(default_factory=list)
    seed: int = 0
    micro_batch: int = 0


@dataclass
class Sequence:
    prompt: int
    completion: List[int]
    advantage: float = 0.0
    old_logprobs: Optional[List[float]] = None
    sampling_logprobs: Optional[List[float]] = None
    external: bool = False


@dataclass
class Logprobs:
    prompts: List[List[int]]
    sequences: List[Sequence]
    temperature: float = 1.0
    micro_batch: int = 0


@dataclass
class Update(Logprobs):
    learning_rate: float = 1e-3
    epsilon: float = 0.2
    epsilon_high: float = 0.28
    delta: float = 0.0
    beta: float = 0.0
    num_iterations: int = 1
    loss_type: str = "bnpo"
    max_completion_length: int = 0
    max_grad_norm: float = 0.0
    correction: str = ""
    divergence: float = 0.0


@dataclass
class Configure:
    """Memory settings to change. None means no change."""

    gradient_checkpointing: Optional[bool] = None
    optimizer_offload: Optional[bool] = None
    param_offload: Optional[bool] = None
    cuda_graphs: Optional[bool] = None
    memory_cap_bytes: Optional[int] = None


@dataclass
class Save:
    path: str
    format: str = "checkpoint"
    dtype: str = "float32"
    metadata: Dict[str, str] = field(default_factory=dict)
    background: bool = False


@dataclass
class Saved:
    wait: bool = False


@dataclass
class Restore:
    path: str
    sha256: str = ""


def decode(line):
    """Decodes one line to a request object. Refuses NaN and Infinity, which are not JSON."""
    try:
        request = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise bad(f"the line is not a JSON object: {error}") from None
    if not isinstance(request, dict):
        raise bad("the line is not a JSON object")
    return request


def request_id(request):
    """The request's id, or 0 if it is not an integer below 2^53."""
    number = request.get("id")
    return number if _is_integer(number) else 0


def envelope(request):
    """Returns call and params of a decoded request."""
    if not _is_integer(request.get("id")):
        raise bad("id must be an integer")
    call, params = request.get("call"), request.get("params")
    if not isinstance(call, str):
        raise bad("call must be a string")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise bad("params must be an object")
    return call, params


def _refuse_constant(name):
    raise ValueError(f"{name} is not a number")


def _is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53


class _Fields:
    """Takes checked fields out of a params object. Fields that are left at the end are an error."""

    def __init__(self, params, where=""):
        self._left = dict(params)
        self._where = where

    def _take(self, name, default):
        value = self._left.pop(name, None)
        if value is not None:
            return value
        if default is ...:
            raise bad(f"{self._where}{name} is missing")
        return default

    def optional(self, take, name):
        """take(name), or None if the field is absent."""
        return take(name) if name in self._left else None

    def integer(self, name, default=..., low=0, high=(1 << 53) - 1):
        value = self._take(name, default)
        if not _is_integer(value) or not low <= value <= high:
            raise bad(f"{self._where}{name} must be an integer from {low} to {high}")
        return value

    def number(self, name, default=..., low=-math.inf, high=math.inf, above=None):
        value = self._take(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise bad(f"{self._where}{name} must be a number")
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value) or not low <= value <= high or (above is not None and value <= above):
            bounds = f"above {above}" if above is not None else f"from {low} to {high}"
            raise bad(f"{self._where}{name} must be a finite number {bounds}")
        return value

    def flag(self, name, default=False):
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise bad(f"{self._where}{name} must be true or false")
        return value

    def text(self, name, default=..., choices=None):
        value = self._take(name, default)
        if not isinstance(value, str) or "\0" in value:
            raise bad(f"{self._where}{name} must be a string")
        if choices is not None and value not in choices:
            raise bad(f"{self._where}{name} must be one of {', '.join(choices)}")
        return value

    def items(self, name, default=...):
        value = self._take(name, default)
        if not isinstance(value, list):
            raise bad(f"{self._where}{name} must be a list")
        return value

    def tokens(self, name):
        return _tokens(self.items(name), f"{self._where}{name}")

    def mapping(self, name):
        value = self._take(name, {})
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            raise bad(f"{self._where}{name} must be an object of strings")
        return value

    def end(self):
        if self._left:
            raise bad(f"{self._where}{min(self._left)} is not a parameter of this call")


def _tokens(value, name):
    if not isinstance(value, list) or not value:
        raise bad(f"{name} must be a list of 1 or more token ids")
    if not all(type(token) is int and 0 <= token < 1 << 53 for token in value):
        raise bad(f"{name} holds something that is not a token id")
    return value


def parse_hello(params):
    fields = _Fields(params)
    version = fields.integer("protocol")
    fields.end()
    if version != VERSION:
        raise bad(f"protocol {version} is not spoken here: this engine speaks {VERSION}")


def parse_load(params):
    fields = _Fields(params)
    load = Load(
        model_dir=fields.text("model_dir"),
        random_init=fields.flag("random_init"),
        seed=fields.integer("seed", 0, low=-(1 << 53) + 1),
        device=fields.text("device", "cpu"),
        precision=fields.text("precision", "fp32", PRECISIONS),
        threads=fields.integer("threads", 0, high=4096),
        gradient_checkpointing=fields.flag("gradient_checkpointing"),
        adam_beta1=fields.number("adam_beta1", 0.9, 0, 1),
        adam_beta2=fields.number("adam_beta2", 0.999, 0, 1),
        adam_epsilon=fields.number("adam_epsilon", 1e-8, 0),
        weight_decay=fields.number("weight_decay", 0.0, 0),
        memory_cap_bytes=fields.integer("memory_cap_bytes", 0),
        self_test=fields.flag("self_test"),
        optimizer_offload=fields.flag("optimizer_offload"),
        param_offload=fields.flag("param_offload"),
        cuda_graphs=fields.flag("cuda_graphs"),
        ranks=fields.integer("ranks", 1, low=1, high=64),
    )
    fields.end()
    # Zero values of all three, as from a Go client, mean Adam's defaults.
    if load.adam_beta1 == load.adam_beta2 == load.adam_epsilon == 0:
        load.adam_beta1, load.adam_beta2, load.adam_epsilon = 0.9, 0.999, 1e-8
    if load.adam_beta1 >= 1 or load.adam_beta2 >= 1 or load.adam_epsilon <= 0:
        raise bad("adam_beta1 and adam_beta2 must be below 1 and adam_epsilon above 0")
    return load


def parse_generate(params):
    fields = _Fields(params)
    stops = fields.items("stop_token_ids", [])
    generate = Generate(
        prompts=_prompts(fields),
        num_generations=fields.integer("num_generations", low=1),
        max_new_tokens=fields.integer("max_new_tokens", low=1),
        temperature=fields.number("temperature", 1.0, 0),
        top_k=fields.integer("top_k", 0),
        top_p=fields.number("top_p", 1.0, 0, 1),
        eos_token_id=fields.integer("eos_token_id", -1, low=-1),
        stop_token_ids=stops and _tokens(stops, "stop_token_ids"),
        seed=fields.integer("seed", 0, low=-(1 << 53) + 1),
        micro_batch=fields.integer("micro_batch", 0),
    )
    fields.end()
    if not generate.prompts:
        raise bad("prompts is empty")
    return generate


def parse_logprobs(params):
    fields = _Fields(params)
    logprobs = Logprobs(**_scored(fields))
    fields.end()
    return logprobs


def parse_update(params):
    fields = _Fields(params)
    update = Update(
        **_scored(fields),
        learning_rate=fields.number("learning_rate", 1e-3, 0),
        epsilon=fields.number("epsilon", 0.2, 0),
        epsilon_high=fields.number("epsilon_high", 0.28, 0),
        delta=fields.number("delta", 0.0, 0),
        beta=fields.number("beta", 0.0, 0),
        num_iterations=fields.integer("num_iterations", 1, low=1),
        loss_type=fields.text("loss_type", "bnpo", LOSS_TYPES),
        max_completion_length=fields.integer("max_completion_length", 0),
        max_grad_norm=fields.number("max_grad_norm", 0.0, 0),
        correction=fields.text("correction", "", CORRECTIONS),
        divergence=fields.number("divergence", 0.0, 0),
    )
    fields.end()
    if 0 < update.delta <= 1 + update.epsilon_high:
        raise bad("delta must be above 1 + epsilon_high, or 0: no bound")
    if update.loss_type == "dr_grpo" and update.max_completion_length < 1:
        raise bad("dr_grpo needs max_completion_length")
    return update


def _scored(fields):
    prompts = _prompts(fields)
    sequences = []
    for index, item in enumerate(fields.items("sequences", [])):
        where = f"sequences[{index}]."
        if not isinstance(item, dict):
            raise bad(f"sequences[{index}] must be an object")
        inner = _Fields(item, where)
        sequence = Sequence(
            prompt=inner.integer("prompt"),
            completion=inner.tokens("completion"),
            advantage=inner.number("advantage", 0.0),
            external=inner.flag("external"),
        )
        given = {name: inner.items(name, []) for name in ("old_logprobs", "sampling_logprobs")}
        inner.end()
        if sequence.prompt >= len(prompts):
            raise bad(f"{where}prompt is {sequence.prompt}, but there are {len(prompts)} prompts")
        for name, values in given.items():
            if values:
                setattr(sequence, name, _token_logprobs(values, len(sequence.completion), where + name))
        sequences.append(sequence)
    return {
        "prompts": prompts,
        "sequences": sequences,
        "temperature": fields.number("temperature", 1.0, above=0),
        "micro_batch": fields.integer("micro_batch", 0),
    }


def _token_logprobs(values, length, name):
    numbers = all(type(v) in (int, float) and math.isfinite(v) and v <= 1e-3 for v in values)
    if len(values) != length or not numbers:
        raise bad(f"{name} must hold one log-probability for each completion token")
    return [float(v) for v in values]


def _prompts(fields):
    return [_tokens(prompt, f"prompts[{index}]") for index, prompt in enumerate(fields.items("prompts", []))]


def parse_configure(params):
    fields = _Fields(params)
    configure = Configure(
        gradient_checkpointing=fields.optional(fields.flag, "gradient_checkpointing"),
        optimizer_offload=fields.optional(fields.flag, "optimizer_offload"),
        param_offload=fields.optional(fields.flag, "param_offload"),
        cuda_graphs=fields.optional(fields.flag, "cuda_graphs"),
        memory_cap_bytes=fields.optional(fields.integer, "memory_cap_bytes"),
    )
    fields.end()
    return configure


def parse_save(params):
    fields = _Fields(params)
    save = Save(
        path=fields.text("path"),
        format=fields.text("format", "checkpoint", ("checkpoint", "huggingface")),
        dtype=fields.text("dtype", "float32", ("", "float32", "bfloat16", "float16")),
        metadata=fields.mapping("metadata"),
        background=fields.flag("background"),
    )
    fields.end()
    if not save.path:
        raise bad("path is empty")
    if save.background and save.format != "checkpoint":
        raise bad("background is for the format checkpoint alone")
    return save


def parse_saved(params):
    fields = _Fields(params)
    saved = Saved(wait=fields.flag("wait"))
    fields.end()
    return saved


def parse_restore(params):
    fields = _Fields(params)
    restore = Restore(path=fields.text("path"), sha256=fields.text("sha256", "").lower())
    fields.end()
    return restore


def parse_nothing(params):
    _Fields(params).end()


def check_generate(generate, vocab_size, context_length):
    """Token ids must be below vocab_size, and prompts must leave space for at least one token."""
    for index, prompt in enumerate(generate.prompts):
        if len(prompt) > context_length - 1:
            raise bad(f"prompts[{index}] has {len(prompt)} tokens; the context of {context_length} leaves no room")
        _check_ids(prompt, vocab_size, f"prompts[{index}]")
    if generate.eos_token_id >= vocab_size:
        raise bad(f"eos_token_id {generate.eos_token_id} is outside the vocabulary of {vocab_size}")
    _check_ids(generate.stop_token_ids, vocab_size, "stop_token_ids")


def check_scored(scored, vocab_size, context_length):
    """Token ids must be below vocab_size, and prompt plus completion must fit the context."""
    for index, prompt in enumerate(scored.prompts):
        _check_ids(prompt, vocab_size, f"prompts[{index}]")
    for index, sequence in enumerate(scored.sequences):
        _check_ids(sequence.completion, vocab_size, f"sequences[{index}].completion")
        total = len(scored.prompts[sequence.prompt]) + len(sequence.completion)
        if total > context_length:
            raise bad(f"sequences[{index}] has {total} tokens with its prompt; the context is {context_length}")


def _check_ids(tokens, vocab_size, name):
    if max(tokens, default=0) >= vocab_size:
        raise bad(f"{name} holds token id {max(tokens)}; the vocabulary has {vocab_size}")
