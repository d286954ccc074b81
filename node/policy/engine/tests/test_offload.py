"""Adam's moments and the weights on the host: same bits, same views, and no loss if memory runs out on
the way.
"""

import dataclasses

import pytest
import torch
from conftest import CONFIG, LLAMA3, QWEN2, QWEN3
from engine import adam as adams
from engine import checkpoint, memory, offload, weights
from engine.adam import Adam
from engine.generate import generate
from engine.offload import Parking
from engine.protocol import Generate, Sequence, Update
from engine.update import Trainer

REQUEST = Update([[1, 2], [3]], [Sequence(0, [4, 5, 13], 1.0), Sequence(1, [6, 7], -1.0)], learning_rate=0.01)
OUT_OF_MEMORY = "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes"


def state(trainer):
    adam = trainer.adam
    return [t.clone() for t in (trainer.model.flat, adam.exp_avg, adam.exp_avg_sq)] + [torch.tensor(adam.step_count)]


def assert_same(one, other):
    assert all(torch.equal(a, b) for a, b in zip(one, other))


@pytest.fixture(params=[CONFIG, QWEN2, QWEN3, LLAMA3], ids=["gpt2", "qwen2", "qwen3", "llama"])
def make_trainer(request, make_model):
    def make(**options):
        return Trainer(make_model(torch.float32, request.param), Adam(**options))

    return make


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(adams, "STAGE", {"cpu": 1 << 12})


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("stage", [1 << 12, 5000, 1 << 30])
def test_an_offloaded_step_has_the_same_bits(make_trainer, monkeypatch, decay, stage):
    monkeypatch.setattr(adams, "STAGE", {"cpu": stage})
    plain, offloaded = make_trainer(weight_decay=decay), make_trainer(weight_decay=decay, offload=True)
    for _ in range(3):
        plain.update(REQUEST)
        offloaded.update(REQUEST)
        assert_same(state(plain), state(offloaded))


def test_every_piece_passes_through_two_slots(small_pieces):
    source = [torch.arange(10_001.0), -torch.arange(10_001.0)]
    buffers = [buffer.clone() for buffer in source]
    seen, addresses = [], set()
    for begin, end, (first, second) in offload.Stage(buffers, 1000, torch.device("cpu")).pieces():
        assert torch.equal(first, source[0][begin:end]) and torch.equal(second, source[1][begin:end])
        addresses.add(first.data_ptr())
        first.mul_(2)
        seen.append((begin, end))
    assert seen == [(at, min(at + 1000, 10_001)) for at in range(0, 10_001, 1000)]
    assert len(addresses) == 2
    assert torch.equal(buffers[0], 2 * source[0]) and torch.equal(buffers[1], source[1])


def test_switching_offload_while_training_changes_no_bit(make_trainer, small_pieces):
    plain, switched = make_trainer(), make_trainer()
    device = torch.device("cpu")
    for offloaded in (True, True, False, True, False):
        switched.adam.set_offload(offloaded, device)
        switched.adam.unpark(device)
        plain.update(REQUEST)
        switched.update(REQUEST)
        assert_same(state(plain), state(switched))


def assert_whole(model):
    """Every view of the model views the flat buffer and nothing else."""
    storage_of = lambda tensor: getattr(tensor, "untyped_storage", tensor.storage)().data_ptr()  # noqa: E731
    views = list(model.tensors.values()) + model.leaves + [model.embedding, model.head]
    assert all(storage_of(view) == storage_of(model.flat) for view in views)
    for name, view in model.views(model.flat).items():
        assert view.data_ptr() == model.tensors[name].data_ptr()
    assert all(any(tensor is leaf for leaf in model.leaves) for layer in model.layers for tensor in layer if tensor is not None)


def test_parking_keeps_bits_and_views(make_trainer):
    trainer = make_trainer()
    trainer.update(REQUEST)
    before, first = state(trainer), trainer.model.flat
    parking = Parking(trainer.model)
    parking.unpark()
    for _ in range(2):
        parking.park()
        parking.park()
        assert parking.parked and trainer.model.flat is not first
        assert_whole(trainer.model)
        assert_same(state(trainer), before)
        parking.unpark()
        assert not parking.parked
        assert_whole(trainer.model)
        assert_same(state(trainer), before)


def test_training_and_sampling_go_on_after_parking_as_if_nothing_had_happened(make_trainer):
    plain, parked = make_trainer(), make_trainer()
    parking = Parking(parked.model)
    request = Generate([[1, 2], [3]], 4, 9, seed=5, eos_token_id=13)
    for _ in range(3):
        assert generate(plain.model, request) == generate(parked.model, request)
        plain.update(REQUEST)
        parked.update(REQUEST)
        parking.park()
        parked.adam.park(torch.device("cpu"))
        assert_same(state(plain), state(parked))
        parking.unpark()


def test_a_parked_model_lets_go_of_its_other_buffer(make_model):
    model = make_model(torch.float32, dataclasses.replace(CONFIG, vocab_size=1_000_000))  # 128 MB
    parking = Parking(model)
    memory.trim()
    before = memory.read_rss()
    for move in (parking.park, parking.unpark):
        move()
        memory.trim()
        assert memory.read_rss() < before + (16 << 20)


@pytest.mark.parametrize("offloaded", [False, True])
@pytest.mark.parametrize("parked", [False, True])
def test_checkpoints_are_the_same_in_every_state(make_trainer, tmp_path, offloaded, parked):
    plain, other = make_trainer(), make_trainer(offload=offloaded)
    digests = []
    for trainer in (plain, other):
        trainer.update(REQUEST)
        parking = Parking(trainer.model)
        if parked and trainer is other:
            parking.park()
            trainer.adam.park(torch.device("cpu"))
        digests.append(checkpoint.save(trainer, str(tmp_path / "ck"), {})[1])
    assert digests[0] == digests[1]

    other = make_trainer(offload=offloaded)
    parking = Parking(other.model)
    if parked:
        parking.park()
    checkpoint.restore(other, str(tmp_path / "ck"), digests[0])
    assert weights.weight_hash(other.model.tensors) == weights.weight_hash(plain.model.tensors)
    parking.unpark()
    other.adam.unpark(torch.device("cpu"))
    plain.update(REQUEST)
    other.update(REQUEST)
    assert_same(state(plain), state(other))


def fail_at(monkeypatch, count):
    """Makes the count-th allocation from now on fail. Returns a function that tells whether that has
    happened.
    """
    calls = []

    def failing(function):
        def call(*arguments, **options):
            calls.append(None)
            if len(calls) == count:
                raise RuntimeError(OUT_OF_MEMORY)
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(torch, "empty", failing(torch.empty))
    monkeypatch.setattr(torch, "empty_like", failing(torch.empty_like))
    return lambda: len(calls) >= count


@pytest.mark.parametrize("offloaded", [False, True])
def test_a_step_that_runs_out_of_memory_changes_nothing(make_trainer, small_pieces, monkeypatch, offloaded):
    trainer = make_trainer(offload=offloaded)
    trainer.update(REQUEST)
    before = state(trainer)
    gradient = torch.ones_like(trainer.model.flat)
    for count in range(1, 20):
        with monkeypatch.context() as patch:
            came = fail_at(patch, count)
            try:
                trainer.adam.step(trainer.model.flat, gradient, 0.1)
            except RuntimeError:
                assert came()
            else:
                assert count == (6 if offloaded else 2) and not came()
                break
        assert_same(state(trainer), before)
    assert not torch.equal(trainer.model.flat, before[0])


def test_parking_that_runs_out_of_memory_changes_nothing(make_trainer, monkeypatch):
    trainer = make_trainer()
    trainer.update(REQUEST)
    before, parking = state(trainer), Parking(trainer.model)
    for move in (parking.park, parking.unpark):
        for count in range(1, 9):
            with monkeypatch.context() as patch:
                came = fail_at(patch, count)
                try:
                    move()
                except RuntimeError:
                    assert came()
                else:
                    assert count > 1 and not came()
                    break
            assert_whole(trainer.model)
            assert_same(state(trainer), before)


def test_moments_that_cannot_move_stay_where_they_are(make_trainer, monkeypatch):
    trainer = make_trainer()
    trainer.update(REQUEST)
    before, held = state(trainer), trainer.adam.exp_avg
    for count in (1, 2):
        with monkeypatch.context() as patch:
            fail_at(patch, count)
            with pytest.raises(RuntimeError):
                trainer.adam.set_offload(True, torch.device("cpu"))
        assert not trainer.adam.offload and trainer.adam.exp_avg is held
        assert_same(state(trainer), before)


FUSED = hasattr(torch, "_fused_adam_") and tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4)


@pytest.mark.skipif(not FUSED, reason="this torch has no fused Adam on the CPU")
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("offloaded", [False, True])
@pytest.mark.parametrize("dtype,tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_the_fused_kernel_makes_the_same_step(small_pieces, monkeypatch, decay, offloaded, dtype, tolerance):
    """The kernel has the same arguments as on CUDA. Its result is compared with that of the pieces."""
    generator = torch.Generator().manual_seed(4)
    start = torch.randn(10_001, generator=generator).to(dtype)
    plain, fused = Adam(0.8, 0.95, 1e-6, decay), Adam(0.8, 0.95, 1e-6, decay, offload=offloaded)
    parameters = start.clone(), start.clone()
    used = []
    kernel = torch._fused_adam_
    monkeypatch.setattr(torch, "_fused_adam_", lambda *a, **k: used.append(len(a[0][0])) or kernel(*a, **k))
    for _ in range(5):
        gradient = torch.randn(10_001, generator=generator).to(dtype)
        for adam, parameter, devices in zip((plain, fused), parameters, ((), ("cpu",))):
            monkeypatch.setattr(adams, "FUSED", devices)
            adam.prepare(parameter)
            adam.step(parameter, gradient, 0.01)
    assert used[0] == 4 and sum(used[1:]) == 5 * 10_001
    assert (parameters[0] - start).abs().max() > 0.01
    for one, other in (parameters, (plain.exp_avg, fused.exp_avg), (plain.exp_avg_sq, fused.exp_avg_sq)):
        assert torch.allclose(one, other, rtol=0, atol=tolerance)


def test_a_kernel_that_does_not_work_is_said_once_and_done_without(make_trainer, monkeypatch, capsys):
    def refusing(*_, **__):
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(adams, "FUSED", ("cpu",))
    monkeypatch.setattr(torch, "_fused_adam_", refusing, raising=False)
    refused, plain = make_trainer(), make_trainer()
    for _ in range(2):
        refused.update(REQUEST)
    assert capsys.readouterr().err.count("no such kernel") == 1
    monkeypatch.setattr(adams, "FUSED", ())
    for _ in range(2):
        plain.update(REQUEST)
    assert_same(state(refused), state(plain))


@pytest.mark.skipif(torch.cuda.is_available(), reason="page-locked memory can be had here")
def test_without_page_locked_memory_the_host_still_has_room(capsys):
    buffer = offload.host_empty(torch.ones(3, 5, dtype=torch.float64), torch.device("cuda"))
    assert buffer.shape == (3, 5) and buffer.dtype == torch.float64 and buffer.device.type == "cpu"
    assert "no page-locked memory" in capsys.readouterr().err
