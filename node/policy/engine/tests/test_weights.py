"""safetensors: round trips, model directories in every layout, and files that are truncated, corrupt or
hostile.
"""

import json
import math
import os
import struct

import pytest
import torch
from engine import architecture, weights
from engine.protocol import EngineError
from engine.weights import File, FormatError

PREFIX = "transformer."


def pack(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(dtype="F32", shape=(2,), begin=0, end=8):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def test_round_trip_of_every_dtype(tmp_path):
    path = str(tmp_path / "a")
    tensors = {name: torch.arange(6).reshape(2, 3).to(dtype) for name, dtype in weights.DTYPES.items()}
    tensors["scalar"], tensors["empty"] = torch.tensor(7), torch.zeros(0, 4)
    size, digest = weights.write(path, tensors, {"who": "me"})
    with File(path) as file:
        assert file.metadata == {"who": "me"} and file.size == size and file.sha256() == digest
        for name, expected in tensors.items():
            read = torch.empty_like(expected)
            file.read(name, read)
            assert torch.equal(read, expected), name
            assert file.entries[name].begin % expected.element_size() == 0


@pytest.mark.parametrize(
    "data,named",
    [
        (b"", "too short"),
        (pack({}, length=1 << 62), "does not fit"),
        (pack(b"{}", length=40), "does not fit"),
        (pack(b"not json"), "broken header"),
        (pack(b"[1, 2, 3]"), "not a JSON object"),
        (pack(b"[" * 100000), "broken header"),
        (pack(b'{"a":1,"a":2,"xxxx":3}'), "occurs twice"),
        (pack({"__metadata__": {"a": 1}}), "__metadata__"),
        (pack({"a": tensor()}, b"\0" * 7), "truncated"),
        (pack({"a": tensor()}, b"\0" * 9), "corrupt"),
        (pack({"a": tensor(), "b": tensor(begin=4, end=12)}, b"\0" * 12), "overlaps"),
        (pack({"a": tensor(), "b": tensor()}, b"\0" * 8), "overlaps"),
        (pack({"a": tensor(begin=8, end=16)}, b"\0" * 16), "hole"),
        (pack({"a": tensor(begin=8, end=0)}, b"\0" * 8), "a has shape"),
        (pack({"a": tensor(shape=(3,))}, b"\0" * 8), "a has shape"),
        (pack({"a": tensor(shape=(-2,))}, b"\0" * 8), "broken header entry"),
        (pack({"a": tensor(shape=(1 << 62, 1 << 62))}, b"\0" * 8), "broken header entry"),
        (pack({"a": tensor(dtype="C64")}, b"\0" * 8), "C64"),
        (pack({"a": tensor(dtype=["F32"])}, b"\0" * 8), "dtype"),
        (pack({"a": 3, "padding": 4}), "broken header entry"),
        (pack({"a": dict(tensor(), data_offsets=[0, 8.0])}, b"\0" * 8), "broken header entry"),
    ],
)
def test_broken_file(tmp_path, data, named):
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=named) as error:
        File(str(path))
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_every_truncation_is_noticed(tmp_path):
    path = tmp_path / "a"
    weights.write(str(path), {"x": torch.ones(5), "y": torch.ones(2, dtype=torch.int64)}, {})
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(FormatError):
            File(str(path))


def stored(model, prefix=True, dtype=torch.float32):
    named = {name if prefix else name[len(PREFIX) :]: t.detach().to(dtype) for name, t in model.tensors.items()}
    start = PREFIX if prefix else ""
    named[start + "h.0.attn.bias"] = torch.ones(1, 1, 24, 24, dtype=torch.uint8)
    named[start + "h.0.attn.masked_bias"] = torch.tensor(-1e4)
    named["lm_head.weight"] = model.embedding.detach().to(dtype).clone()
    return named


@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_model_directory_in_every_layout(make_model, tmp_path, prefix, dtype):
    source, target = make_model(torch.float32), make_model(torch.float32, seed=2)
    weights.write(str(tmp_path / "model.safetensors"), stored(source, prefix, dtype), {"format": "pt"})
    weights.load(target, str(tmp_path))
    assert torch.equal(target.flat, source.flat.to(dtype).float())
    assert weights.weight_hash(source.tensors) != weights.weight_hash(make_model(torch.float32, seed=2).tensors)


def test_sharded_model(make_model, tmp_path):
    source, target = make_model(torch.float32), make_model(torch.float32, seed=2)
    names = sorted(source.tensors)
    shards = {f"model-{i}-of-3.safetensors": names[i::3] for i in range(3)}
    for shard, held in shards.items():
        weights.write(str(tmp_path / shard), {name: source.tensors[name] for name in held}, {})
    index = {"weight_map": {name: shard for shard, held in shards.items() for name in held}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    weights.load(target, str(tmp_path))
    assert weights.weight_hash(target.tensors) == weights.weight_hash(source.tensors)
    (tmp_path / "model-1-of-3.safetensors").unlink()
    with pytest.raises(EngineError, match="model-1-of-3"):
        weights.load(target, str(tmp_path))
    for broken in ('{"weight_map": {"a": "../x"}}', '{"weight_map": []}', "{", '{"weight_map": {"a": 3}}'):
        (tmp_path / "model.safetensors.index.json").write_text(broken)
        with pytest.raises(EngineError, match="index"):
            weights.load(target, str(tmp_path))


@pytest.mark.parametrize(
    "change,named",
    [
        (lambda t: t.pop("wte.weight"), "wte.weight is missing"),
        (lambda t: t.update({"h.2.ln_1.bias": torch.ones(32)}), "not a tensor of this gpt2"),
        (lambda t: t.update({"wpe.weight": torch.ones(25, 32)}), r"\[25, 32\]"),
        (lambda t: t.update({"ln_f.bias": torch.ones(32, dtype=torch.int64)}), "I64"),
        (lambda t: t.update({PREFIX + "ln_f.bias": torch.ones(32)}), "occurs twice"),
    ],
)
def test_model_that_does_not_fit(model, tmp_path, change, named):
    tensors = stored(model, prefix=False)
    change(tensors)
    weights.write(str(tmp_path / "model.safetensors"), tensors, {})
    with pytest.raises(EngineError, match=named) as error:
        weights.load(model, str(tmp_path))
    assert error.value.kind == "model" and str(tmp_path) in str(error.value)


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "model", "testdata", "weights.json"), encoding="utf-8") as file:
    TABLE = json.load(file)


def load_changed(directory, base, changes):
    """Loads a model of TABLE with changed tensors: name -> (dtype, shape, bytes), or None to remove it."""
    model = architecture.make_model(architecture.parse_config(TABLE["bases"][base], "config.json"))
    held = {name: ("F32", shape, 4 * math.prod(shape)) for name, shape in model.shapes.items()}
    held.update(changes)
    header, end = {}, 0
    for name, change in held.items():
        if change is not None:
            header[name] = tensor(change[0], change[1], end, end + change[2])
            end += change[2]
    (directory / "model.safetensors").write_bytes(pack(header, b"\0" * end))
    weights.load(model, str(directory))


@pytest.mark.parametrize("base,changes", TABLE["accepted"])
def test_weights_that_the_program_accepts(tmp_path, base, changes):
    load_changed(tmp_path, base, changes)


@pytest.mark.parametrize("base,changes", TABLE["refused"])
def test_weights_that_the_program_refuses(tmp_path, base, changes):
    with pytest.raises(EngineError) as error:
        load_changed(tmp_path, base, changes)
    assert error.value.kind == "model"


def test_no_weights_at_all(model, tmp_path):
    (tmp_path / "file").write_text("")
    for directory in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(EngineError, match=str(directory)) as error:
            weights.load(model, str(directory))
        assert error.value.kind == "model"


def test_a_failed_read_is_no_invalid_model(model, tmp_path, monkeypatch):
    for name in ("model.safetensors.index.json", "model.safetensors", "folder"):
        path = tmp_path / name
        path.symlink_to(name)  # a loop: every open fails
        with pytest.raises(EngineError, match=f"{path}: .*symbolic links") as error:
            weights.load(model, str(path if name == "folder" else tmp_path))
        assert error.value.kind == "unreadable"
    (tmp_path / "model.safetensors").unlink()
    weights.write(str(tmp_path / "model.safetensors"), stored(model), {})

    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(File, "read", fail)
    with pytest.raises(EngineError, match=f"{tmp_path}: Input/output error") as error:
        weights.load(model, str(tmp_path))
    assert error.value.kind == "unreadable"
