"""Sampling against one-at-a-time reference passes: limits, EOS, dropped rows, filters, distribution."""

import math

import pytest
import reference
import torch
from conftest import CONFIG, LLAMA3, QWEN2, QWEN3
from engine.decoder import Decoder
from engine.generate import ExactSteps, generate, parts
from engine.protocol import Generate
from engine.sampler import BLOCK, BlockSampler, sample

PROMPTS = [[5, 3, 28], [7], [13, 13, 4, 9, 9, 1, 0, 2], [13]]


def request(**options):
    values = dict(prompts=PROMPTS, num_generations=3, max_new_tokens=12, temperature=0.8, eos_token_id=13, seed=11)
    return Generate(**dict(values, **options))


@pytest.mark.parametrize("dtype,tolerance", [(torch.float64, 1e-9), (torch.float32, 1e-4)])
@pytest.mark.parametrize("eos", [13, -1])
def test_logprobs_and_entropy_equal_the_reference(make_model, dtype, tolerance, eos):
    model = make_model(dtype)
    weights = reference.copy_weights(model)
    result = generate(model, request(eos_token_id=eos))
    entropies = []
    for row, tokens in enumerate(result.tokens):
        with torch.no_grad():
            logp = reference.distribution(weights, model.config, PROMPTS[row // 3], tokens, 0.8)
        expected = logp[range(len(tokens)), tokens]
        assert (torch.tensor(result.logprobs[row], dtype=torch.float64) - expected).abs().max() < tolerance
        entropies.extend((-(logp.exp() * logp).sum(-1)).tolist())
    assert abs(result.entropy - sum(entropies) / len(entropies)) < tolerance
    assert result.new_tokens == len(entropies)
    assert result.prefill_tokens == sum(map(len, PROMPTS))


def test_completions_end_at_the_first_eos_or_at_the_limit(model):
    result = generate(model, request(num_generations=16, max_new_tokens=20))
    ended = 0
    for row, tokens in enumerate(result.tokens):
        limit = min(20, 24 - len(PROMPTS[row // 16]))
        assert 13 not in tokens[:-1]
        assert result.terminated[row] == (tokens[-1] == 13)
        assert result.terminated[row] or len(tokens) == limit
        ended += result.terminated[row]
    assert 0 < ended < len(result.tokens)


def test_completions_end_at_any_end_token(model):
    options = dict(num_generations=16, max_new_tokens=20)
    plain, stopped = generate(model, request(**options)), generate(model, request(stop_token_ids=[4, 20], **options))
    ended_by = set()
    for row, tokens in enumerate(plain.tokens):
        length = next((i + 1 for i, token in enumerate(tokens) if token in (13, 4, 20)), len(tokens))
        assert stopped.tokens[row] == tokens[:length] and stopped.logprobs[row] == plain.logprobs[row][:length]
        assert stopped.terminated[row] == (tokens[length - 1] in (13, 4, 20))
        if stopped.terminated[row]:
            ended_by.add(tokens[length - 1])
    assert ended_by == {13, 4, 20}


def test_context_cuts_prompt_plus_completion(model):
    prompts = [[1] * 23, [2] * 20]
    result = generate(model, request(prompts=prompts, max_new_tokens=100, eos_token_id=-1))
    assert [len(tokens) for tokens in result.tokens] == [1] * 3 + [4] * 3
    assert not any(result.terminated)


@pytest.mark.parametrize("generations", [3, 16])
def test_dropping_ended_rows_changes_nothing(model, monkeypatch, generations):
    options = dict(num_generations=generations, max_new_tokens=20, temperature=2.0)
    dropped = []
    compact = Decoder.compact

    def watched(self, alive, below):
        before = len(self.row_list)
        index = compact(self, alive, below)
        dropped.append(before - len(self.row_list))
        return index

    monkeypatch.setattr(Decoder, "compact", watched)
    monkeypatch.setattr(ExactSteps, "compact_below", 0.0)
    plain = generate(model, request(**options))
    assert sum(dropped) == 0
    monkeypatch.setattr(ExactSteps, "compact_below", 1.0)
    compacted = generate(model, request(**options))
    assert sum(dropped) >= generations
    assert compacted.tokens == plain.tokens and compacted.terminated == plain.terminated
    for ours, theirs in zip(compacted.logprobs, plain.logprobs):
        assert torch.allclose(torch.tensor(ours), torch.tensor(theirs), rtol=0, atol=1e-12)


def test_same_seed_same_bits_whatever_happened_before(make_model):
    model = make_model(torch.float32)
    first = generate(model, request())
    generate(model, request(seed=12))
    torch.manual_seed(99)
    again = generate(model, request())
    assert again == first
    assert generate(model, request(seed=12)).tokens != first.tokens


def test_greedy_takes_the_most_likely_token(model):
    weights = reference.copy_weights(model)
    result = generate(model, request(temperature=0.0, num_generations=2, eos_token_id=-1))
    for row, tokens in enumerate(result.tokens):
        with torch.no_grad():
            logp = reference.distribution(weights, model.config, PROMPTS[row // 2], tokens, 1.0)
        assert logp.argmax(-1).tolist() == tokens
        assert torch.allclose(torch.tensor(result.logprobs[row], dtype=torch.float64), logp.max(-1).values, atol=1e-9)


def draw(logits, count, **options):
    uniform = torch.rand(count, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return sample(logits.expand(count, -1), uniform, request(**options))


def test_sampling_follows_the_distribution():
    logits = torch.tensor([[0.3, -1.0, 2.0, 0.0, -30.0]])
    count = 200_000
    token, logprob, _ = draw(logits, count, temperature=1.5)
    expected = torch.softmax(logits[0] / 1.5, -1)
    shares = torch.bincount(token, minlength=5) / count
    assert (shares - expected).abs().max() < 0.005
    assert torch.allclose(logprob, expected.log()[token].double(), atol=1e-6)


def test_top_k_and_top_p_keep_what_hugging_face_keeps():
    logits = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05]).log().unsqueeze(0)
    kept = lambda **options: sorted(set(draw(logits, 5000, temperature=1.0, **options)[0].tolist()))  # noqa: E731
    assert kept(top_k=2) == [0, 1]
    assert kept(top_k=9) == [0, 1, 2, 3, 4]
    assert kept(top_p=0.65) == [0, 1]
    assert kept(top_p=0.75) == [0, 1, 2]
    assert kept(top_p=0.01) == [0]
    assert kept(top_k=3, top_p=0.8) == [0, 1]  # 0.7 / 0.85 reaches 0.8 once the rest is renormalized
    token, logprob, _ = draw(logits, 100, temperature=1.0, top_k=1)
    assert torch.allclose(logprob, torch.full((100,), 0.4, dtype=torch.float64).log(), atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 1 - 1e-16, 0.999999999])
def test_an_extreme_draw_never_takes_an_impossible_token(value):
    logits = torch.full((1, 1000), -1.0)
    logits[0, 0] = logits[0, -1] = -200.0
    token, _, _ = sample(logits, torch.tensor([value], dtype=torch.float64), request(temperature=1.0))
    assert 0 < int(token) < 999


def block_draw(logits, uniform, dtype=torch.float32, **options):
    """BlockSampler's tokens [R], and log-probabilities and negative entropies [2, R]."""
    rows, vocabulary = logits.shape
    token, figures = torch.zeros(rows, 1, dtype=torch.long), torch.zeros(2, rows, dtype=dtype)
    sampler = BlockSampler(rows, vocabulary, request(**options), dtype, torch.device("cpu"))
    sampler.draw(logits, uniform, token, figures)
    return token.squeeze(1), figures


@pytest.mark.parametrize("vocabulary", [2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 1000])
@pytest.mark.parametrize("options", [dict(temperature=1.0), dict(temperature=0.7, top_k=5), dict(temperature=0.7, top_p=0.5)], ids=str)
def test_blocks_draw_by_the_inverse_cdf(vocabulary, options):
    """Draws the token whose interval of the exact distribution contains the uniform number. At an
    interval's ends rounding may decide.
    """
    generator = torch.Generator().manual_seed(vocabulary)
    logits = 6 * torch.randn(400, vocabulary, generator=generator)
    logits[:, vocabulary // 3 : vocabulary // 2] = -1e4  # tokens with zero probability, including whole blocks
    uniform = torch.rand(400, generator=generator, dtype=torch.float64)
    token, figures = block_draw(logits, uniform, **options)
    expected_token, logprob, entropy = sample(logits.double(), uniform, request(**options))
    same = token == expected_token
    assert same.double().mean() > 0.99
    assert torch.allclose(figures[0].double()[same], logprob[same], atol=2e-5)
    assert torch.allclose(-figures[1].double(), entropy, atol=1e-4)
    if len(options) == 1:
        probs = logits.double().softmax(-1)
        high = probs.cumsum(-1).gather(1, token.unsqueeze(1)).squeeze(1)
        low = high - probs.gather(1, token.unsqueeze(1)).squeeze(1)
        assert ((uniform >= low - 1e-6) & (uniform < high + 1e-6)).all()


@pytest.mark.parametrize("vocabulary", [2, BLOCK, 1000])
@pytest.mark.parametrize("options", [dict(temperature=1.0), dict(temperature=0.7, top_k=2), dict(temperature=0.7, top_p=0.5)], ids=str)
def test_blocks_draw_a_token_that_exists_from_logits_that_are_not_finite(vocabulary, options):
    """On a GPU an index past the end would end the process."""
    for bad in (math.nan, math.inf):
        logits = torch.zeros(3, vocabulary)
        logits[0, 0] = logits[1, :] = bad
        token, figures = block_draw(logits, torch.full((3,), 0.9, dtype=torch.float64), **options)
        assert ((token >= 0) & (token < vocabulary)).all()
        assert figures[0].isfinite().tolist() == [False, False, True]


@pytest.mark.parametrize("value", [0.0, 0.5, 0.999999999, 1 - 2**-53])
@pytest.mark.parametrize("possible", [[0], [BLOCK - 1], [BLOCK], [3, 700], [BLOCK - 1, 2 * BLOCK], [999], [0, 999]])
def test_blocks_never_draw_an_impossible_token(value, possible):
    logits = torch.full((1, 1000), -1e4)
    logits[0, possible] = torch.linspace(-3, 3, len(possible))
    for temperature in (1.0, 0.3):
        token, figures = block_draw(logits, torch.tensor([value], dtype=torch.float64), temperature=temperature)
        assert int(token) in possible and torch.isfinite(figures).all()


def test_rounding_at_the_end_of_a_block_stays_within_it():
    """Many draws just below and above the borders of blocks, with numbers that no sum represents exactly."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(1, 4 * BLOCK, generator=generator)
    logits[0, 100:300] = logits[0, 2 * BLOCK - 3 : 2 * BLOCK + 5] = -1e4
    borders = logits.softmax(-1).view(-1, BLOCK).sum(-1, dtype=torch.float64).cumsum(0)
    borders = borders / borders[-1]
    near = torch.cat([border + torch.arange(-40, 40, dtype=torch.float64) * 2**-54 for border in borders]).clamp(0, 1 - 2**-53)
    token, _ = block_draw(logits.expand(len(near), -1), near, temperature=1.0)
    assert (logits[0, token] > -1e3).all()


@pytest.mark.parametrize("micro_batch", [1, 2, 3, 4, 7, 11, 12, 100])
@pytest.mark.parametrize("config", [CONFIG, QWEN2, QWEN3, LLAMA3], ids=["gpt2", "qwen2", "qwen3", "llama"])
def test_how_many_are_decoded_at_a_time_changes_nothing(make_model, config, micro_batch):
    model = make_model(config=config)
    whole, pieces = generate(model, request()), generate(model, request(micro_batch=micro_batch))
    assert pieces.tokens == whole.tokens and pieces.terminated == whole.terminated
    assert (pieces.prefill_tokens, pieces.new_tokens) == (whole.prefill_tokens, whole.new_tokens)
    for ours, theirs in zip(pieces.logprobs, whole.logprobs):
        assert torch.allclose(torch.tensor(ours), torch.tensor(theirs), rtol=0, atol=1e-12)


@pytest.mark.parametrize("prompts,generations,micro_batch", [(4, 3, 0), (4, 3, 1), (4, 3, 2), (4, 3, 7), (1, 8, 3), (5, 2, 4)])
def test_parts_hold_every_row_once_and_no_more_than_asked(prompts, generations, micro_batch):
    rows = []
    for first, last, each, row in parts(prompts, generations, micro_batch):
        assert (last - first) * each <= (micro_batch or prompts * generations)
        assert row // generations == first and (each == generations or last == first + 1)
        rows.extend(range(row, row + (last - first) * each))
    assert rows == list(range(prompts * generations))


@pytest.mark.parametrize("dtype,tolerance", [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_shared_key_heads_equal_the_reference(make_model, dtype, tolerance):
    model = make_model(dtype, QWEN2)
    weights = reference.copy_weights(model)
    result = generate(model, request())
    for row, tokens in enumerate(result.tokens):
        with torch.no_grad():
            expected = reference.logprobs(weights, model.config, PROMPTS[row // 3], tokens, 0.8)
        assert (torch.tensor(result.logprobs[row], dtype=torch.float64) - expected).abs().max() < tolerance
