"""Makes the engine importable and gives the tests a small model: EOS in mid-vocabulary, weights far from
uniform.
"""

import ctypes
import gc
import os
import sys
from dataclasses import replace

import pytest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from engine import environment  # noqa: E402

environment.prepare(os.environ)

import torch  # noqa: E402
from engine import architecture, session  # noqa: E402
from engine.gpt2 import Config  # noqa: E402
from engine.llama import Config as LlamaConfig  # noqa: E402
from engine.llama import Scaling  # noqa: E402

CONFIG = Config(
    vocab_size=29, context_length=24, width=32, heads=4, layers=2, inner=128, norm_epsilon=1e-5, gelu="tanh", eos_token_id=13
)

# The heads together exceed the width, and three of them share a key.
QWEN2 = LlamaConfig(
    vocab_size=29, context_length=64, width=24, heads=6, kv_heads=2, head_size=8, layers=2, inner=40, norm_epsilon=1e-6,
    rope_theta=100.0, tied=True, initializer_range=0.02, eos_token_id=13
)  # fmt: skip
QWEN3 = replace(QWEN2, architecture="qwen3")
LLAMA = replace(QWEN2, architecture="llama", tied=False)
# Two of the four frequencies are stretched, one of them in part: wavelengths from 6 to 199 positions, for an
# original length of 40.
LLAMA3 = replace(LLAMA, scaling=Scaling(8.0, 1.0, 4.0, 40))


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    session.set_threads(1)  # OpenBLAS's too
    yield
    gc.unfreeze()  # unfreeze objects from loads, or the interpreter reports them as leaked at its end


@pytest.fixture(autouse=True)
def keep_freed_memory():
    """Lets glibc reuse freed blocks of up to 32 MB, even after a test that has called memory.prefer_small.

    Otherwise each large tensor of the later tests would get fresh pages from the kernel.
    """
    yield
    for option, limit in ((-3, 32 << 20), (-1, 256 << 20)):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD of malloc.h
        ctypes.CDLL(None).mallopt(option, limit)


@pytest.fixture
def make_model():
    def make(dtype=torch.float64, config=CONFIG, seed=1):
        model = architecture.make_model(config, dtype=dtype)
        model.initialise(seed)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            # Larger weights, biases and norms, so that mistakes show.
            for tensor in model.tensors.values():
                tensor.add_(torch.empty(tensor.shape).normal_(0, 0.15, generator=generator))
        return model

    return make


@pytest.fixture
def model(make_model):
    return make_model()
