"""The model's logits against the reference, its initialization, and the configurations that it refuses."""

import json
import math
import os

import pytest
import reference
import torch
import torch.nn.functional as F
from engine import autograd
from engine.architecture import parse_config, read_config
from engine.layout import Layout
from engine.model import causal_mask
from engine.protocol import EngineError

RAW = dict(model_type="gpt2", n_embd=32, n_layer=2, n_head=4, n_positions=24, vocab_size=29, eos_token_id=13)


@pytest.mark.parametrize("dtype,tolerance", [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_logits_equal_the_reference_in_a_padded_batch(make_model, dtype, tolerance):
    model = make_model(dtype)
    weights = reference.copy_weights(model)
    sequences = [[5, 3, 13, 28, 0, 1, 2], [7], [13, 13, 4]]
    longest = max(map(len, sequences))
    ids = torch.tensor([s + [13] * (longest - len(s)) for s in sequences])
    with torch.no_grad():
        layout = Layout([(0, [longest] * len(sequences))], model, causal_mask(longest, model.flat))
        x = model.embed(ids.view(-1), layout.positions)
        logits = (model.norm(model.hidden(x, layout)) @ model.head.t()).view(len(sequences), longest, -1)
    for row, sequence in enumerate(sequences):
        expected = reference.forward(weights, model.config, sequence)
        assert (logits[row, : len(sequence)] - expected).abs().max() < tolerance


def test_initialisation_is_gpt2s_and_a_function_of_the_seed(make_model):
    model = make_model(torch.float32)
    model.initialise(7)
    first = model.flat.clone()
    tensors = model.tensors
    assert abs(float(tensors["transformer.h.0.mlp.c_fc.weight"].std()) - 0.02) < 0.002
    assert abs(float(tensors["transformer.h.0.mlp.c_proj.weight"].std()) - 0.02 / math.sqrt(4)) < 0.001
    assert (tensors["transformer.ln_f.weight"] == 1).all() and (tensors["transformer.h.1.attn.c_attn.bias"] == 0).all()
    model.initialise(8)
    assert not torch.equal(model.flat, first)
    model.initialise(7)
    assert torch.equal(model.flat, first)


def test_config_of_a_hugging_face_model(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(dict(RAW, n_positions=None, n_ctx=24, eos_token_id=[13, 2], n_inner=64)))
    config, raw = read_config(str(tmp_path))
    assert (config.context_length, config.eos_token_id, config.inner) == (24, 13, 64)
    assert raw["n_layer"] == 2
    assert parse_config({k: v for k, v in RAW.items() if k != "eos_token_id"}, "c").eos_token_id == -1


@pytest.mark.parametrize(
    "change,named",
    [
        (dict(model_type="bert"), "model_type"),
        (dict(n_embd=30), "n_head"),
        (dict(n_layer=None), "n_layer"),
        (dict(n_layer=0), "n_layer"),
        (dict(n_layer="2"), "n_layer"),
        (dict(vocab_size=10), "eos_token_id"),
        (dict(activation_function="relu"), "activation_function"),
        (dict(tie_word_embeddings=False), "tie_word_embeddings"),
        (dict(layer_norm_epsilon=0), "layer_norm_epsilon"),
    ],
)
def test_config_that_is_refused(change, named):
    with pytest.raises(EngineError, match=named) as error:
        parse_config(dict(RAW, **change), "config.json")
    assert error.value.kind == "model"


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00", "[" * 100000])
def test_config_file_that_is_broken(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(EngineError, match="config.json") as error:
        read_config(str(tmp_path))
    assert error.value.kind == "model"


def test_config_file_that_is_missing_or_cannot_be_read(tmp_path):
    path = tmp_path / "config.json"
    for directory, named in ((tmp_path / "nowhere", "No such file"), (path, "Not a directory")):
        path.write_text("{}")
        with pytest.raises(EngineError, match=named) as error:
            read_config(str(directory))
        assert error.value.kind == "model" and str(directory) in str(error.value)
    path.unlink()
    path.symlink_to("config.json")  # a loop: every open fails
    with pytest.raises(EngineError, match=f"{path}: .*symbolic links") as error:
        read_config(str(tmp_path))
    assert error.value.kind == "unreadable"


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 4, "configs", "testdata", "model_configs.json"), encoding="utf-8") as file:
    TABLE = json.load(file)


@pytest.mark.parametrize("base,change", TABLE["accepted"])
def test_config_that_the_program_accepts(base, change):
    parse_config(dict(TABLE["bases"][base], **change), "config.json")


@pytest.mark.parametrize("base,change", TABLE["refused"])
def test_config_that_the_program_refuses(base, change):
    with pytest.raises(EngineError):
        parse_config(dict(TABLE["bases"][base], **change), "config.json")


@pytest.mark.parametrize("mkl", [True, False])
def test_logits_of_few_rows_are_the_faster_product(model, monkeypatch, mkl):
    """MKL multiplies head · xᵀ, OpenBLAS x · headᵀ. A column of the former is contiguous."""
    monkeypatch.setattr("engine.model.HAS_MKL", mkl)
    with torch.inference_mode():
        x = torch.randn(3, model.config.width, dtype=model.dtype)
        plain = model.norm(x) @ model.head.t()
        found = model.logits(x)
    assert found.stride() == ((1, 3) if mkl else (model.config.vocab_size, 1))
    assert torch.allclose(found, plain, atol=1e-5) if mkl else torch.equal(found, plain)


def test_a_backward_pass_refuses_what_is_not_deterministic_unless_torch_has_nothing_else(monkeypatch):
    """Memory-efficient and flash attention take their deterministic kernels only in the strict mode."""
    device, modes = torch.device("cpu"), []

    def mode():
        return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()

    autograd._all_deterministic.cache_clear()
    with autograd.repeatable(device):
        modes.append(mode())
    autograd._all_deterministic.cache_clear()

    def refusing(*_, **__):
        raise RuntimeError("attention does not have a deterministic implementation, but you set ...")

    monkeypatch.setattr(F, "scaled_dot_product_attention", refusing, raising=False)
    with autograd.repeatable(device):
        modes.append(mode())
    autograd._all_deterministic.cache_clear()
    assert modes == [(True, False), (True, True)] and mode() == (False, False)
