"""Llama, Qwen2 and Qwen3 against the reference and numbers computed by hand; configurations, files and
initialization.
"""

import json
import math
from dataclasses import replace

import pytest
import reference
import torch
from conftest import LLAMA, LLAMA3, QWEN2, QWEN3
from engine import checkpoint, llama, protocol, weights
from engine.adam import Adam
from engine.architecture import parse_config, read_config
from engine.generate import generate
from engine.layout import Layout
from engine.model import causal_mask
from engine.protocol import EngineError
from engine.update import Trainer
from test_update import batch, make_request, run_engine

RAW = dict(
    model_type="qwen2", vocab_size=29, hidden_size=24, num_attention_heads=6, num_key_value_heads=2, head_dim=8,
    num_hidden_layers=2, intermediate_size=40, max_position_embeddings=64, rms_norm_eps=1e-6, rope_theta=100.0,
    tie_word_embeddings=True, hidden_act="silu", use_sliding_window=False, sliding_window=32, eos_token_id=13,
)  # fmt: skip
KINDS = {
    "tied": QWEN2,
    "untied": replace(QWEN2, tied=False),
    "one key a head": replace(QWEN2, kv_heads=6),
    "qwen3": QWEN3,
    "llama": LLAMA,
    "llama, scaled": LLAMA3,
}
SCALING = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 40
}  # fmt: skip


@pytest.fixture(params=KINDS)
def config(request):
    return KINDS[request.param]


def test_rotation_by_hand():
    """Position 1, base 10000, h = 4: the pairs (1, 3) and (2, 4) rotate by 1 and by 0.01 radian."""
    config = replace(QWEN2, head_size=4, rope_theta=10000.0)
    table = llama.rotary_table(config, "cpu", torch.float64)
    x = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]], dtype=torch.float64)
    turned = llama.rotate(x, table[1:2]).view(-1).tolist()
    assert turned == pytest.approx([-1.98411065, 1.95990067, 2.46237790, 4.01979967], abs=1e-8)
    assert torch.equal(llama.rotate(x, table[:1]), x)
    assert (llama.rotate(x, table[63:]).norm() - x.norm()).abs() < 1e-12
    assert tuple(table.shape) == (64, 4)


@pytest.mark.parametrize("has", sorted({False, llama.HAS_RMS_NORM}))
def test_root_mean_square_by_hand(monkeypatch, has):
    monkeypatch.setattr(llama, "HAS_RMS_NORM", has)
    x, weight = torch.tensor([[3.0, 4.0]]), torch.tensor([1.0, 2.0])
    assert llama.rms_norm(x, weight, 0.0).tolist()[0] == pytest.approx([3 / 12.5**0.5, 8 / 12.5**0.5])
    # In half precision the square of 300 is infinite.
    assert llama.rms_norm(100 * x.half(), weight.half(), 0.0).tolist()[0] == pytest.approx([0.8486, 2.2627], abs=2e-3)


@pytest.mark.parametrize("dtype,tolerance", [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_logits_equal_the_reference_in_a_padded_batch(make_model, config, dtype, tolerance):
    model = make_model(dtype, config)
    held = reference.copy_weights(model)
    sequences = [[5, 3, 13, 28, 0, 1, 2], [7], [13, 13, 4]]
    longest = max(map(len, sequences))
    ids = torch.tensor([s + [13] * (longest - len(s)) for s in sequences])
    with torch.no_grad():
        layout = Layout([(0, [longest] * len(sequences))], model, causal_mask(longest, model.flat))
        x = model.embed(ids.view(-1), layout.positions)
        logits = (model.norm(model.hidden(x, layout)) @ model.head.t()).view(len(sequences), longest, -1)
    for row, sequence in enumerate(sequences):
        assert (logits[row, : len(sequence)] - reference.forward(held, config, sequence)).abs().max() < tolerance


@pytest.mark.parametrize("checkpointing", [False, True])
def test_update_equals_the_reference(make_model, config, checkpointing):
    request = make_request(batch(), micro_batch=3)
    model = make_model(torch.float64, config)
    held = reference.copy_weights(model)
    optimizer = torch.optim.Adam(held.values(), lr=request.learning_rate, eps=1e-2)
    loss, norm, gradients, _ = reference.update(held, config, request, optimizer)
    _, outcome, ours = run_engine(model, request, checkpointing=checkpointing, epsilon=1e-2)
    assert outcome.loss == pytest.approx(loss, abs=1e-9) and outcome.grad_norm == pytest.approx(norm, rel=1e-9)
    assert set(ours) == set(gradients)
    for name, tensor in model.tensors.items():
        assert (ours[name] - gradients[name]).abs().max() < 1e-9, name
        assert (tensor - held[name]).abs().max() < 1e-9, name


def test_completions_have_the_reference_s_log_probabilities(make_model, config):
    model = make_model(torch.float64, config)
    held = reference.copy_weights(model)
    request = protocol.Generate([[5, 3, 28], [7], [13, 13, 4, 9, 9]], 4, 12, temperature=0.8, eos_token_id=13, seed=3)
    result = generate(model, request)
    assert len({tuple(tokens) for tokens in result.tokens}) > 3
    for i, tokens in enumerate(result.tokens):
        with torch.no_grad():
            expected = reference.logprobs(held, config, request.prompts[i // 4], tokens, 0.8)
        assert result.logprobs[i] == pytest.approx(expected.tolist(), abs=1e-9)


def test_views_follow_a_rebase(make_model, config):
    model = make_model(torch.float64, config)
    ids, layout = torch.tensor([3, 5]), Layout([(0, [2])], model, causal_mask(2, model.flat))
    before = model.norm(model.hidden(model.embed(ids, layout.positions), layout)).detach()
    held, layer, old = dict(model.tensors), model.layers[0], model.flat
    model.rebase(old.clone())
    old.fill_(float("nan"))
    assert torch.equal(model.norm(model.hidden(model.embed(ids, layout.positions), layout)).detach(), before)
    assert all(model.tensors[name] is tensor for name, tensor in held.items()) and model.layers[0] is layer
    model.flat.zero_()
    assert not layer.qkv_weight.any() and not held["model.norm.weight"].any()
    model.make_gradients()
    model.head.grad.add_(1)
    assert int(model.flat_grad.sum()) == model.head.numel()


def test_initialisation(make_model):
    model = llama.Llama(replace(QWEN2, initializer_range=0.5, tied=False))
    model.initialise(7)
    first = model.flat.clone()
    for name, tensor in model.tensors.items():
        if name.endswith("norm.weight"):
            assert (tensor == 1).all(), name
        elif name.endswith(".bias"):
            assert (tensor == 0).all(), name
        else:
            assert 0.4 < float(tensor.std()) < 0.6, name
    model.initialise(7)
    assert torch.equal(model.flat, first)
    model.initialise(8)
    assert not torch.equal(model.flat, first)


def without(*names, **changes):
    return dict({k: v for k, v in RAW.items() if k not in names}, **changes)


@pytest.mark.parametrize(
    "raw",
    [
        RAW,
        dict(RAW, rope_scaling=None, layer_types=["full_attention"] * 2, eos_token_id=[13, 5]),
        without("rope_theta", rope_parameters={"rope_type": "default", "rope_theta": 100}),
        dict(RAW, rope_theta=7, rope_parameters={"rope_theta": 100.0, "partial_rotary_factor": 1.0}),
        dict(RAW, rope_scaling={"type": "default"}),
        without("use_sliding_window", "hidden_act", "rms_norm_eps"),
    ],
)
def test_config_as_written_by_transformers_4_and_5(raw):
    assert parse_config(raw, "c") == QWEN2


@pytest.mark.parametrize("place", ["rope_scaling", "rope_parameters"])
def test_configs_of_the_other_architectures(place):
    assert parse_config(dict(RAW, model_type="qwen3", attention_bias=False), "c") == QWEN3
    raw = dict(RAW, model_type="llama", tie_word_embeddings=False, attention_bias=False, mlp_bias=False)
    assert parse_config(raw, "c") == LLAMA
    assert parse_config(dict(raw, **{place: dict(SCALING, rope_theta=100.0)}), "c") == LLAMA3
    assert parse_config(without("head_dim", model_type="qwen3"), "c").head_size == 128


def test_llama_3_s_frequencies_by_hand():
    """Frequencies 1, 0.1 and 0.01 for an original length of 100: unchanged, interpolated, and 8 times as
    slow.
    """
    scaling = llama.Scaling(8.0, 1.0, 4.0, 100)
    found = llama.stretched(torch.tensor([1.0, 0.1, 0.01], dtype=torch.float64), scaling).tolist()
    smooth = (100 * 0.1 / (2 * math.pi) - 1) / 3
    assert found == pytest.approx([1.0, (1 - smooth) * 0.1 / 8 + smooth * 0.1, 0.01 / 8], rel=1e-12)
    assert 0 < smooth < 1


def test_config_without_what_may_be_absent():
    config = parse_config(
        without("rope_theta", "tie_word_embeddings", "num_key_value_heads", "head_dim", "eos_token_id"), "c"
    )
    assert (config.rope_theta, config.tied, config.kv_heads, config.head_size, config.eos_token_id) == (10000.0, False, 6, 4, -1)


@pytest.mark.parametrize(
    "change,named",
    [
        (dict(use_sliding_window=True), "use_sliding_window"),
        (dict(layer_types=["full_attention", "sliding_attention"]), "layer_types"),
        (dict(layer_types=["full_attention"]), "layer_types"),
        (dict(hidden_act="gelu"), "hidden_act"),
        (dict(rope_scaling={"rope_type": "yarn", "factor": 4.0}), "rope_scaling"),
        (dict(rope_scaling={"type": "linear", "factor": 2.0}), "rope_scaling"),
        (dict(rope_parameters={"full_attention": {"rope_theta": 1.0}}), "rope_parameters"),
        (dict(rope_parameters=[1]), "rope_parameters must be an object"),
        (dict(rope_parameters={"rope_theta": "x"}), "rope_parameters: rope_theta"),
        (dict(rope_parameters={"rope_theta": 1e6, "partial_rotary_factor": 0.5}), "partial_rotary_factor"),
        (dict(rope_theta=-1.0), "rope_theta"),
        (dict(num_key_value_heads=4), "num_key_value_heads"),
        (dict(head_dim=None, num_attention_heads=5, num_key_value_heads=5), "not a multiple"),
        (dict(head_dim=7), "odd"),
        (dict(hidden_size=0), "hidden_size"),
        (dict(intermediate_size=None), "intermediate_size"),
        (dict(tie_word_embeddings="yes"), "tie_word_embeddings"),
        (dict(eos_token_id=29), "eos_token_id"),
        (dict(model_type=["qwen2"]), "model_type"),
        (dict(model_type="qwen4"), "this engine knows gpt2, llama, qwen2, qwen3"),
        (dict(model_type="llama", attention_bias=True), "attention_bias"),
        (dict(model_type="llama", mlp_bias=True), "mlp_bias"),
        (dict(model_type="qwen3", attention_bias=True), "attention_bias"),
        (dict(rope_scaling=dict(SCALING, factor=None)), "factor is missing"),
        (dict(rope_scaling=dict(SCALING, low_freq_factor=4.0)), "high_freq_factor must be above"),
        (dict(rope_scaling=dict(SCALING, attention_factor=2.0)), "rope_scaling"),
    ],
)
def test_config_that_is_refused(change, named):
    with pytest.raises(EngineError, match=named) as error:
        parse_config(dict(RAW, **change), "config.json")
    assert error.value.kind == "model" and "\n" not in str(error.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("prefix", [True, False])
def test_model_directory(make_model, monkeypatch, tmp_path, config, dtype, prefix):
    """bfloat16 as on the hub, in two shards, and names without prefix, as the bare Qwen2Model is saved."""
    monkeypatch.setattr(weights, "_PIECE", 100)
    source, target = make_model(torch.float32, config), make_model(torch.float32, config, seed=2)
    stored = {name: tensor.detach().to(dtype) for name, tensor in source.tensors.items()}
    if not prefix:
        stored = {name[6:] if name.startswith("model.") else name: tensor for name, tensor in stored.items()}
    if config.tied:
        # An explicit copy of the tied head, which must be ignored.
        stored["lm_head.weight"] = torch.zeros(29, 24, dtype=dtype)
    shards = {"a.safetensors": sorted(stored)[::2], "b.safetensors": sorted(stored)[1::2]}
    for shard, names in shards.items():
        weights.write(str(tmp_path / shard), {name: stored[name] for name in names}, {"format": "pt"})
    index = {"weight_map": {name: shard for shard, names in shards.items() for name in names}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    weights.load(target, str(tmp_path))
    assert torch.equal(target.flat, source.flat.to(dtype).float())


def test_an_untied_model_needs_its_head(make_model, tmp_path):
    model = make_model(torch.float32, KINDS["untied"])
    stored = {name: tensor for name, tensor in model.tensors.items() if name != "lm_head.weight"}
    weights.write(str(tmp_path / "model.safetensors"), stored, {})
    with pytest.raises(EngineError, match="lm_head.weight is missing"):
        weights.load(model, str(tmp_path))


@pytest.mark.parametrize("dtype,stored", [("float32", torch.float32), ("bfloat16", torch.bfloat16), ("float16", torch.float16)])
def test_saved_directory(make_model, tmp_path, config, dtype, stored):
    model, read = make_model(torch.float32, config), make_model(torch.float32, config, seed=9)
    raw = without("rope_theta", rope_parameters={"rope_type": "default", "rope_theta": 100.0}, dtype="bfloat16", kept=[1])
    raw.update(num_key_value_heads=config.kv_heads, tie_word_embeddings=config.tied, model_type=config.architecture)
    if config.scaling is not None:
        raw["rope_parameters"] = dict(config.scaling.fields(), rope_theta=100.0)
    path = str(tmp_path / "model")
    checkpoint.save_huggingface(model, raw, path, dtype)
    again, written = read_config(path)
    assert again == config
    assert written["architectures"] == [llama.CLASSES[config.architecture][0]] and written["kept"] == [1]
    assert written["dtype"] == written["torch_dtype"] == dtype
    assert written["rope_theta"] == 100.0 and written["rope_parameters"] == raw["rope_parameters"]
    with weights.File(path + "/model.safetensors") as file:
        assert file.metadata == {"format": "pt"} and ("lm_head.weight" in file.entries) != config.tied
    weights.load(read, path)
    assert torch.equal(read.flat, model.flat.to(stored).float())


def test_training_goes_on_from_a_checkpoint(make_model, tmp_path, config):
    path = str(tmp_path / "ck")
    trainer, _, _ = run_engine(make_model(torch.float32, config), make_request(batch()))
    checkpoint.save(trainer, path, {})
    other, _, _ = run_engine(make_model(torch.float32, config, seed=4), make_request(batch()))
    checkpoint.restore(other, path)
    for one in (trainer, other):
        one.update(make_request(batch(seed=1)))
    assert torch.equal(trainer.model.flat, other.model.flat)
    narrow = make_model(torch.float32, replace(config, rope_theta=50.0))
    with pytest.raises(EngineError, match="another model"):
        checkpoint.restore(Trainer(narrow, Adam()), path)
