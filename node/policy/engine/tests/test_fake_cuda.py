"""The engine's CUDA code on tensors of a fake device: devices, dtypes, and places where the host would
wait.

test_forced_cuda.py tests numbers, and test_cuda.py a real device.
"""

import pytest
import torch
from conftest import CONFIG, LLAMA3, QWEN2, QWEN3
from engine import adam as adams
from engine import architecture, generate, precision, update
from engine.adam import Adam
from engine.offload import Parking
from engine.protocol import Generate, Logprobs, Sequence, Update
from engine.sampler import BlockSampler, Draws
from engine.static import StaticDecoder
from engine.update import Trainer
from fake_cuda import ANYTHING, AVAILABLE, DEVICE, FIXED, READS_NOTHING, REASON, FakeCuda, HostWaits
from test_graphs import Direct

pytestmark = pytest.mark.skipif(not AVAILABLE, reason=REASON)

BOTH = pytest.mark.parametrize("config", [CONFIG, QWEN2, QWEN3, LLAMA3], ids=["gpt2", "qwen2", "qwen3", "llama"])
REDUCED = pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float16], ids=["fp32", "bf16", "fp16"])
PROMPTS = [[5, 3, 28], [7], [13, 13, 4, 9, 9, 1, 0, 2], [13]]
ROWS = [Sequence(0, [4, 5, 13], 1.0), Sequence(0, [4], -1.0, [-0.5]), Sequence(1, [6, 7], -1.0), Sequence(1, [6, 7], 0.5)]


@pytest.fixture
def cuda(monkeypatch):
    """Lists where the host may wait: around a call's steps, and for the norm of a gradient."""
    with FakeCuda(monkeypatch) as mode:
        for owner, name, host in (
            (StaticDecoder, "step", FIXED),
            (StaticDecoder, "collect", READS_NOTHING),
            (update, "gradient_norm", ANYTHING),
            (Trainer, "_backward", READS_NOTHING),
        ):
            monkeypatch.setattr(owner, name, mode.allowing(host, getattr(owner, name)))
        yield mode


def make_model(config):
    model = architecture.make_model(config, DEVICE)
    model.initialise(1)
    assert all(tensor.device == DEVICE for tensor in [model.flat, *model.tensors.values(), *model.leaves])
    return model


def look_at_nothing(self, begin, end, rows, row_list):
    """Replaces Draws.look without reading tokens: every row continues to its limit."""
    for row in row_list:
        self.alive[row] = end < self.ended_at[row]


def sample(monkeypatch, config, dtype=None, graphs=None, **options):
    """Draws every token of a request, without detecting ends. Returns the Draws and the number of steps
    after the first.
    """
    model, kept, steps = make_model(config), [], []
    monkeypatch.setattr(Draws, "look", look_at_nothing)
    monkeypatch.setattr(generate, "completions", lambda request, draws, *_: kept.append(draws))
    step = StaticDecoder.step
    monkeypatch.setattr(StaticDecoder, "step", lambda self, window: steps.append(window) or step(self, window))
    request = Generate(**dict(dict(prompts=PROMPTS, num_generations=5, max_new_tokens=4, eos_token_id=13, temperature=0.8), **options))
    model = model if dtype is None else precision.Reduced(model, dtype).refresh()
    generate.generate(model, request, generate.Static(graphs))
    return kept[0], len(steps)


OPTIONS = [dict(), dict(temperature=0.0), dict(temperature=1.0), dict(top_k=4), dict(top_p=0.7), dict(top_k=9, top_p=0.5), dict(micro_batch=7)]


@BOTH
@pytest.mark.parametrize("graphs", [None, Direct()], ids=["", "graphs"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_sampling_stays_on_the_device(cuda, monkeypatch, config, graphs, options):
    draws, steps = sample(monkeypatch, config, None, graphs, **options)
    assert steps >= 3
    assert {kept.device for kept in (draws.tokens, draws.logprobs, draws.entropies)} == {DEVICE}


@BOTH
@REDUCED
def test_sampling_in_every_precision(cuda, monkeypatch, config, dtype):
    assert sample(monkeypatch, config, dtype)[1] == 3


FAULTS = {
    "a number read": (lambda logits: logits.max().item(), HostWaits),
    "a comparison of the host's": (lambda logits: bool((logits > 0).all()), HostWaits),
    "a list read": (lambda logits: logits[0].tolist(), HostWaits),
    "a copy to the host": (lambda logits: logits.cpu(), HostWaits),
    "as many results as numbers say": (lambda logits: logits[logits > 0], RuntimeError),
    "a list sent": (lambda logits: torch.tensor([1, 2], device=logits.device), HostWaits),
    "a tensor of the host's": (lambda logits: logits + torch.zeros(logits.shape[-1]), RuntimeError),
    "an index of the host's": (lambda logits: logits.index_select(0, torch.zeros(1, dtype=torch.long)), RuntimeError),
    "another dtype": (lambda logits: logits @ torch.zeros(logits.shape[-1], 3, dtype=torch.float64, device=logits.device), RuntimeError),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_in_a_step_is_found(cuda, monkeypatch, fault):
    """Tests the fake device itself: each of these faults would break a capture, fail on a card, or stop
    the host at every token.
    """
    mistake, error = FAULTS[fault]
    draw = BlockSampler.draw

    def draw_wrongly(self, logits, *arguments):
        if cuda.host == FIXED:
            mistake(logits)
        return draw(self, logits, *arguments)

    monkeypatch.setattr(BlockSampler, "draw", draw_wrongly)
    with pytest.raises(error):
        sample(monkeypatch, CONFIG)


def trainer(config, dtype=None, checkpointing=False, **options):
    return Trainer(make_model(config), Adam(**options), checkpointing, dtype)


def request(**options):
    return Update([[1, 2], [3]], ROWS, **dict(dict(learning_rate=0.01, micro_batch=3, max_grad_norm=0.5), **options))


KINDS = {"fp32": (None, False), "bf16": (torch.bfloat16, False), "fp16": (torch.float16, False), "checkpointing": (None, True)}


@BOTH
@pytest.mark.parametrize("kind", KINDS)
def test_an_update_stays_on_the_device(cuda, config, kind):
    ours, passes = trainer(config, *KINDS[kind]), []
    gradient = ours.model.make_gradients
    ours.model.make_gradients = lambda: passes.append(1) or gradient()
    outcome = ours.update(request(num_iterations=2))
    assert outcome.steps == len(passes) == 2
    assert ours.adam.exp_avg.device == ours.model.flat.device == DEVICE


@BOTH
def test_an_update_with_a_reference(cuda, config):
    ours = trainer(config)
    with cuda.only(READS_NOTHING):
        reference = ours.score(Logprobs([[1, 2], [3]], ROWS))
    assert {row.device for row in reference} == {DEVICE} and [len(row) for row in reference] == [3, 1, 2, 2]
    assert ours.update(request(beta=0.1, delta=2.0), reference).steps == 1


WRONG = {
    "a number read": (lambda logp: logp.sum().item(), HostWaits),
    "a copy to the host": (lambda logp: logp.to("cpu"), HostWaits),
    "a tensor of the host's": (lambda logp: logp * torch.ones(len(logp)), RuntimeError),
    "places unknown to the host": (lambda logp: logp[logp.isnan()], RuntimeError),
    "another dtype": (lambda logp: logp.view(1, -1) @ logp.view(-1, 1).double(), RuntimeError),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_planted_fault_in_an_update_is_found(cuda, monkeypatch, fault):
    mistake, error = WRONG[fault]
    surrogate = update.loss.clipped_surrogate
    monkeypatch.setattr(update.loss, "clipped_surrogate", lambda logp, *rest: [mistake(logp), surrogate(logp, *rest)][1])
    with pytest.raises(error):
        trainer(CONFIG).update(request())


def test_a_gradient_of_the_host_is_found(cuda, monkeypatch):
    """The walk through autograd's graph checks each gradient, as autograd does."""
    scored = update.score_targets

    def on_the_host(*arguments):
        logp, entropy, gradient = scored(*arguments)
        return logp, entropy, torch.zeros(gradient.shape)

    monkeypatch.setattr(update, "score_targets", on_the_host)
    with pytest.raises(RuntimeError):
        trainer(CONFIG).update(request())


@BOTH
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "pieces"])
@pytest.mark.parametrize("offload", [False, True], ids=["", "offload"])
def test_the_step_stays_on_the_device(cuda, monkeypatch, capsys, config, fused, offload):
    monkeypatch.setattr(adams, "FUSED", ("cuda",) if fused else ())
    monkeypatch.setattr(adams, "STAGE", {"cuda": 1 << 12})
    monkeypatch.setattr(adams, "_PIECE", {"cuda": 1 << 11})
    ours = trainer(config, weight_decay=0.1, offload=offload)
    ours.update(request())
    kind = "cpu" if offload else "cuda"
    assert {moment.device.type for moment in (ours.adam.exp_avg, ours.adam.exp_avg_sq)} == {kind}
    assert ours.adam._fused == fused and capsys.readouterr().err == ""


def test_a_step_with_moments_left_on_the_host_is_found(cuda, monkeypatch):
    ours = trainer(CONFIG)
    ours.update(request())
    ours.adam.park(DEVICE)
    with pytest.raises(RuntimeError):
        ours.update(request())


@BOTH
def test_weights_and_moments_park_on_the_host_and_come_back(cuda, config):
    ours = trainer(config)
    parking = Parking(ours.model)
    for _ in range(2):
        ours.update(request())
        parking.park()
        ours.adam.park(DEVICE)
        everything = [ours.model.flat, *ours.model.leaves, *ours.model.tensors.values(), ours.adam.exp_avg, ours.adam.exp_avg_sq]
        assert {tensor.device.type for tensor in everything} == {"cpu"}
        with pytest.raises(RuntimeError):
            ours.update(request())
        parking.unpark()
        ours.adam.unpark(DEVICE)
        assert {tensor.device for tensor in [ours.model.flat, *ours.model.leaves, *ours.model.tensors.values()]} == {DEVICE}


def test_one_leaf_left_behind_is_found(cuda, monkeypatch):
    """If all weights but one come back, the first pass fails."""
    ours = trainer(CONFIG)
    parking = Parking(ours.model)
    parking.park()
    left = ours.model.leaves.pop(3)
    parking.unpark()
    assert left.device.type == "cpu"
    with pytest.raises(RuntimeError):
        ours.score(Logprobs([[1, 2], [3]], ROWS))
