"""Checkpoints: training continues bit by bit after a restore, and damaged files leave the state
unchanged.
"""

import json
import os

import pytest
import torch
from engine import checkpoint, weights
from engine.adam import Adam
from engine.architecture import read_config
from engine.protocol import EngineError, Sequence, Update
from engine.update import Trainer

REQUEST = Update([[1, 2], [3]], [Sequence(0, [4, 5, 13], 1.0), Sequence(1, [6, 7], -1.0)])


def state(trainer):
    adam = trainer.adam
    tensors = [t.clone() if t is not None else None for t in (trainer.model.flat, adam.exp_avg, adam.exp_avg_sq)]
    return tensors, adam.step_count


def same(one, other):
    pairs = zip(one[0], other[0])
    return one[1] == other[1] and all(a is b if a is None or b is None else torch.equal(a, b) for a, b in pairs)


@pytest.fixture
def trainer(make_model):
    return Trainer(make_model(torch.float32), Adam())


def test_restored_training_goes_on_bit_by_bit(make_model, trainer, tmp_path):
    path = str(tmp_path / "deep" / "ck.safetensors")
    trainer.update(REQUEST)
    size, digest, _ = checkpoint.save(trainer, path, {"round": "7", "swarm_checkpoint": "x"})
    assert os.path.getsize(path) == size and os.listdir(os.path.dirname(path)) == ["ck.safetensors"]
    hashed = weights.weight_hash(trainer.model.tensors)
    trainer.update(REQUEST)
    expected = state(trainer)

    other = Trainer(make_model(torch.float32, seed=5), Adam())
    other.update(REQUEST)
    metadata = checkpoint.restore(other, path, digest)
    assert metadata == {"round": "7", "swarm_checkpoint": "x"} and other.adam.step_count == 1
    assert weights.weight_hash(other.model.tensors) == hashed
    other.update(REQUEST)
    assert same(state(other), expected)


def test_the_file_of_an_earlier_version_with_a_random_state_is_restored(make_model, trainer, tmp_path):
    trainer.update(REQUEST)
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    now = checkpoint.State(trainer, {"round": "7"})
    _, digest = weights.write(old, dict(now.tensors, **{"rng.cpu": torch.get_rng_state()}), now.header)
    other = Trainer(make_model(torch.float32, seed=5), Adam())
    assert checkpoint.restore(other, old, digest) == {"round": "7"}
    assert same(state(other), state(trainer))
    checkpoint.save(other, new, {"round": "7"})
    with weights.File(new) as file:
        assert set(file.entries) == set(now.tensors) and "rng.cpu" not in file.entries


def test_checkpoint_before_the_first_step(make_model, trainer, tmp_path):
    path = str(tmp_path / "ck")
    checkpoint.save(trainer, path, {})
    expected = state(trainer)
    trainer.update(REQUEST)
    checkpoint.restore(trainer, path)
    assert same(state(trainer), expected)


def edit(path, change):
    """Rewrites a checkpoint's header with change(header), and keeps the data."""
    data = open(path, "rb").read()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data[8 + length :])


def set_shape(header):
    header["adam.exp_avg.transformer.ln_f.bias"]["shape"] = [4, 8]


def rename(header):
    header["extra"] = header.pop("adam.step")


def add_tensor(header):
    header["extra"] = dict(header["adam.step"], data_offsets=[0, 0], shape=[0])


def other_heads(header):
    architecture = json.loads(header["__metadata__"]["architecture"])
    header["__metadata__"]["architecture"] = json.dumps(dict(architecture, heads=8))


@pytest.mark.parametrize(
    "change,named",
    [
        (set_shape, "exp_avg"),
        (rename, "adam.step"),
        (other_heads, "another model"),
        (lambda header: header.pop("__metadata__"), "not a checkpoint"),
        (lambda header: header["__metadata__"].update(metadata="[1]"), "metadata"),
        (lambda header: header["__metadata__"].update(architecture="{"), "metadata"),
        (lambda header: header["adam.step"].update(dtype="F64"), "adam.step"),
        (lambda header: header["adam.step"].update(shape=[1]), "adam.step"),
        (add_tensor, "extra does not belong"),
    ],
)
def test_a_checkpoint_that_does_not_fit_changes_nothing(trainer, tmp_path, change, named):
    path = str(tmp_path / "ck")
    trainer.update(REQUEST)
    checkpoint.save(trainer, path, {})
    edit(path, change)
    trainer.update(REQUEST)
    before = state(trainer)
    with pytest.raises(EngineError, match=named) as error:
        checkpoint.restore(trainer, path)
    assert error.value.kind == "checkpoint" and path in str(error.value)
    assert same(state(trainer), before)


def test_truncated_absent_or_altered_checkpoint_changes_nothing(trainer, tmp_path):
    path = str(tmp_path / "ck")
    _, digest, _ = checkpoint.save(trainer, path, {})
    trainer.update(REQUEST)
    before = state(trainer)
    data = open(path, "rb").read()
    altered = bytearray(data)
    altered[-6000] ^= 1
    for broken in (data[:-1], data[:100], b"", bytes(altered)):
        with open(path, "wb") as file:
            file.write(broken)
        with pytest.raises(EngineError) as error:
            checkpoint.restore(trainer, path, digest)
        assert error.value.kind == "checkpoint"
        assert same(state(trainer), before)
    with pytest.raises(EngineError, match="nowhere") as error:
        checkpoint.restore(trainer, str(tmp_path / "nowhere"))
    assert error.value.kind == "checkpoint"
    assert same(state(trainer), before)


def test_a_failed_read_is_no_damage(trainer, tmp_path, monkeypatch):
    path = str(tmp_path / "ck")
    checkpoint.save(trainer, path, {})
    os.symlink("loop", tmp_path / "loop")
    for unreadable, named in ((tmp_path, "directory"), (tmp_path / "loop", "symbolic links")):
        with pytest.raises(EngineError, match=named) as error:
            checkpoint.restore(trainer, str(unreadable))
        assert error.value.kind == "unreadable" and str(unreadable) in str(error.value)

    def fail(*_):
        raise OSError(5, "Input/output error")

    for part in ("_read_header", "sha256", "read"):
        with monkeypatch.context() as patch:
            patch.setattr(weights.File, part, fail)
            with pytest.raises(EngineError, match=f"{path}: Input/output error") as error:
                checkpoint.restore(trainer, path)
            assert error.value.kind == "unreadable"


def test_a_save_that_fails_keeps_the_file_before_it(trainer, tmp_path, monkeypatch):
    path = str(tmp_path / "ck")
    checkpoint.save(trainer, path, {})
    data = open(path, "rb").read()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(EngineError, match="No space left"):
            checkpoint.save(trainer, path, {"later": "1"})
    assert os.listdir(tmp_path) == ["ck"] and open(path, "rb").read() == data
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError):
        checkpoint.save(trainer, str(tmp_path / "file" / "ck"), {})


@pytest.mark.parametrize("dtype,stored", [("float32", torch.float32), ("bfloat16", torch.bfloat16), ("float16", torch.float16)])
def test_hugging_face_directory(make_model, trainer, tmp_path, dtype, stored):
    path = str(tmp_path / "model")
    raw = dict(model_type="gpt2", n_embd=32, n_layer=2, n_head=4, n_positions=24, vocab_size=29, eos_token_id=13, summary="kept")
    for _ in range(2):  # the second replaces the first
        checkpoint.save_huggingface(trainer.model, raw, path, dtype)
    assert os.listdir(tmp_path) == ["model"] and sorted(os.listdir(path)) == ["config.json", "model.safetensors"]
    config, written = read_config(path)
    assert config == trainer.model.config
    assert written["architectures"] == ["GPT2LMHeadModel"] and written["summary"] == "kept" and written["torch_dtype"] == dtype
    with weights.File(os.path.join(path, "model.safetensors")) as file:
        assert file.metadata == {"format": "pt"} and weights.DTYPES[file.entries["transformer.h.0.attn.c_attn.weight"].dtype] == stored
    read = make_model(torch.float32, seed=9)
    weights.load(read, path)
    assert torch.equal(read.flat, trainer.model.flat.to(stored).float())


def test_saving_a_directory_keeps_everything_else(trainer, tmp_path, monkeypatch):
    folders = [tmp_path / name for name in ("model", "model.old", "model.tmp")]
    for folder in folders:
        folder.mkdir()
        (folder / "notes").write_text("the user's")

    def contents():
        return {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.glob("*/*")}

    before = contents()
    checkpoint.save_huggingface(trainer.model, {}, str(folders[0]), "float32")
    saved = contents()
    assert set(saved) == {*before, "model/config.json", "model/model.safetensors"} and before.items() <= saved.items()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EngineError, match="No space left"):
        checkpoint.save_huggingface(trainer.model, {}, str(folders[0]), "float16")
    assert contents() == saved
