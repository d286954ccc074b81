"""The head: log-probabilities of target tokens from hidden states, and its backward pass, without ever
storing all logits.

Logits exist for a chunk of positions at a time. The loss is a sum over tokens, so that the gradient of a
chunk's logits is known together with its log-probabilities. One pass does forward, loss and backward.
log-softmax is in float32 (float64 for a float64 model).
"""

import torch

# Logits held at a time, and the part of them computed at a time, in elements. On a CPU the part fits the
# cache. On CUDA the part is the whole chunk, because each part has about forty kernels. With b bytes an
# element, at most (CHUNK + 2 · BLOCK) · b are held besides the results: 384 MiB on CUDA in fp32. A reduced
# dtype needs 64 MiB more, because its logits exist twice for a moment. The chunk on CUDA is about 670
# positions of GPT-2's vocabulary. These are enough rows for products at full rate, with few passes over the
# head's gradient, which each chunk reads and writes.
CHUNK = {"cpu": 1 << 24, "cuda": 1 << 25}
BLOCK = {"cpu": 1 << 18, "cuda": 1 << 25}


def score_targets(model, h, targets, temperature, derivative=None):
    """Log-probabilities of targets [N] and entropies, both [N], from normed hidden states h [N, d].

    derivative is a function (begin, end, logp) -> d loss / d logp of those tokens. With it, the loss's
    gradient is added to the head's, and the third result is the gradient by h, [N, d]. Without it the third
    result is None.
    """
    count, vocabulary = len(h), len(model.head)
    chunk, block = (max(1, size[model.kind] // vocabulary) for size in (CHUNK, BLOCK))
    weight = model.head.detach()
    logp, entropy = h.new_empty(count, dtype=model.dtype), h.new_empty(count, dtype=model.dtype)
    gradient = torch.empty_like(h) if derivative else None
    for begin in range(0, count, chunk):
        end = min(begin + chunk, count)
        product = torch.mm(h[begin:end], weight.t())
        reduced = product.dtype != model.dtype  # under autocast
        logits = product.to(model.dtype)
        del product
        for low in range(begin, end, block):
            high = min(low + block, end)
            z = logits[low - begin : high - begin]
            target = targets[low:high].unsqueeze(1)
            if temperature != 1:
                z.div_(temperature)
            z.sub_(z.amax(-1, keepdim=True))
            exp = z.exp()
            total = exp.sum(-1, keepdim=True)
            log_total = total.log()
            logp[low:high] = (z.gather(1, target) - log_total).squeeze(1)
            entropy[low:high] = (log_total - exp.mul(z).sum(-1, keepdim=True) / total).squeeze(1)
            if derivative:
                # d logp_target / d logits = (onehot - softmax) / temperature, written over the logits.
                slope = derivative(low, high, logp[low:high]).unsqueeze(1)
                slope = slope / temperature if temperature != 1 else slope
                torch.mul(exp, -slope / total, out=z)
                z.scatter_add_(1, target, slope)
        if derivative:
            gradient[begin:end] = torch.mm(logits, weight)
            if reduced:
                model.head.grad.add_(torch.mm(logits.t(), h[begin:end]))
            else:
                model.head.grad.addmm_(logits.t(), h[begin:end])
    return logp, entropy, gradient
