"""The closed-form derivatives against autograd, and the weights of tokens."""

import pytest
import torch
from engine import loss


@pytest.mark.parametrize("delta", [0.0, 1.6])
def test_surrogate_and_its_derivative(delta):
    generator = torch.Generator().manual_seed(3)
    logp = torch.randn(500, generator=generator, dtype=torch.float64, requires_grad=True)
    old = logp.detach() + 0.4 * torch.randn(500, generator=generator, dtype=torch.float64)
    advantage = torch.randn(500, generator=generator, dtype=torch.float64)
    advantage[::7] = 0
    value, derivative, low, high = loss.clipped_surrogate(logp.detach(), old, advantage, 0.2, 0.28, delta)
    ratio = torch.exp(logp - old)
    bounded = ratio.clamp(max=delta) if delta else ratio
    assert not delta or ((ratio > delta) & (advantage < 0)).any()
    expected = -torch.min(bounded * advantage, ratio.clamp(0.8, 1.28) * advantage)
    expected.sum().backward()
    assert torch.allclose(value, expected.detach(), atol=1e-14)
    assert torch.allclose(derivative, logp.grad, atol=1e-14)
    assert low.any() and high.any()
    assert (derivative[low | high] == 0).all() and (advantage[low] < 0).all() and (advantage[high] > 0).all()


def test_on_policy_ratio_is_exactly_one_and_the_gradient_alive():
    logp, advantage = torch.tensor([-1.1, -7.3]), torch.tensor([0.5, -2.0])
    value, derivative, low, high = loss.clipped_surrogate(logp, logp, advantage, 0.2, 0.28)
    assert torch.equal(value, -advantage) and torch.equal(derivative, -advantage)
    assert not low.any() and not high.any()


def test_kl_and_its_derivative():
    logp = torch.linspace(-5, 0, 50, dtype=torch.float64, requires_grad=True)
    reference = logp.detach().flip(0)
    value, derivative = loss.kl_k3(logp.detach(), reference)
    d = reference - logp
    (torch.exp(d) - d - 1).sum().backward()
    assert torch.allclose(derivative, logp.grad, atol=1e-12)
    assert (value >= 0).all()


def test_token_weights():
    assert loss.token_weights([1, 3], "bnpo") == [0.25, 0.25]
    assert loss.token_weights([1, 4], "grpo") == [0.5, 0.125]
    assert loss.token_weights([1, 4], "dr_grpo", 10) == [0.05, 0.05]
    with pytest.raises(ValueError):
        loss.token_weights([1], "sapo")
