"""A slow, simple reference engine: one sequence at a time, no cache, no padding, no chunks, gradients by
autograd.

It shares only the names of the weights with the engine.
"""

import math

import torch


def copy_weights(model):
    return {name: tensor.detach().clone().requires_grad_(True) for name, tensor in model.tensors.items()}


def layer_norm(x, weight, bias, epsilon):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / (variance + epsilon).sqrt() * weight + bias


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def forward(weights, config, ids):
    """Logits [T, V] of one sequence."""
    return {"gpt2": forward_gpt2, "llama": forward_llama, "qwen2": forward_llama, "qwen3": forward_llama}[config.architecture](weights, config, ids)


def attend(q, k, v):
    """One head's causal attention."""
    scores = q @ k.t() / math.sqrt(q.shape[1])
    later = torch.ones(scores.shape, dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(later, -math.inf), 1) @ v


def forward_gpt2(weights, config, ids):
    get = lambda name: weights["transformer." + name]  # noqa: E731
    x = torch.stack([get("wte.weight")[token] + get("wpe.weight")[i] for i, token in enumerate(ids)])
    size = config.width // config.heads
    for i in range(config.layers):
        h = f"h.{i}."
        y = layer_norm(x, get(h + "ln_1.weight"), get(h + "ln_1.bias"), config.norm_epsilon)
        qkv = y @ get(h + "attn.c_attn.weight") + get(h + "attn.c_attn.bias")
        heads = []
        for head in range(config.heads):
            q, k, v = (qkv[:, j * config.width + head * size :][:, :size] for j in range(3))
            heads.append(attend(q, k, v))
        x = x + torch.cat(heads, 1) @ get(h + "attn.c_proj.weight") + get(h + "attn.c_proj.bias")
        y = layer_norm(x, get(h + "ln_2.weight"), get(h + "ln_2.bias"), config.norm_epsilon)
        y = gelu(y @ get(h + "mlp.c_fc.weight") + get(h + "mlp.c_fc.bias"))
        x = x + y @ get(h + "mlp.c_proj.weight") + get(h + "mlp.c_proj.bias")
    x = layer_norm(x, get("ln_f.weight"), get("ln_f.bias"), config.norm_epsilon)
    return x @ get("wte.weight").t()


def rms_norm(x, weight, epsilon):
    return x / ((x**2).mean(-1, keepdim=True) + epsilon).sqrt() * weight


def frequency(i, size, config):
    """The frequency of the i-th pair of a head. Llama 3's scaling is as in its paper's code."""
    found, scaling = config.rope_theta ** (-2 * i / size), config.scaling
    if scaling is None:
        return found
    wavelength = 2 * math.pi / found
    if wavelength < scaling.original_length / scaling.high_factor:
        return found
    if wavelength > scaling.original_length / scaling.low_factor:
        return found / scaling.factor
    smooth = (scaling.original_length / wavelength - scaling.low_factor) / (scaling.high_factor - scaling.low_factor)
    return (1 - smooth) * found / scaling.factor + smooth * found


def rope(x, config):
    """One head's vectors [T, h], each rotated for its position: the halves are the real and imaginary parts of h/2
    numbers.
    """
    half = x.shape[1] // 2
    turns = torch.tensor([[t * frequency(i, x.shape[1], config) for i in range(half)] for t in range(len(x))], dtype=x.dtype)
    turned = torch.complex(x[:, :half], x[:, half:]) * torch.polar(torch.ones_like(turns), turns)
    return torch.cat((turned.real, turned.imag), 1)


def forward_llama(weights, config, ids):
    get = lambda name: weights["model." + name]  # noqa: E731
    linear = lambda x, name: x @ get(name + ".weight").t()  # noqa: E731
    x = torch.stack([get("embed_tokens.weight")[token] for token in ids])
    size = config.head_size
    for i in range(config.layers):
        h = f"layers.{i}."
        y = rms_norm(x, get(h + "input_layernorm.weight"), config.norm_epsilon)
        bias = lambda n: get(f"{h}self_attn.{n}_proj.bias") if config.architecture == "qwen2" else 0  # noqa: B023, E731
        q, k, v = (linear(y, f"{h}self_attn.{n}_proj") + bias(n) for n in "qkv")
        if config.architecture == "qwen3":
            q, k = (
                torch.cat([rms_norm(part, get(f"{h}self_attn.{n}_norm.weight"), config.norm_epsilon) for part in x.split(size, 1)], 1)
                for n, x in (("q", q), ("k", k))
            )
        heads = []
        for head in range(config.heads):
            group = head * config.kv_heads // config.heads
            mine, theirs = slice(head * size, head * size + size), slice(group * size, group * size + size)
            heads.append(attend(rope(q[:, mine], config), rope(k[:, theirs], config), v[:, theirs]))
        x = x + linear(torch.cat(heads, 1), h + "self_attn.o_proj")
        y = rms_norm(x, get(h + "post_attention_layernorm.weight"), config.norm_epsilon)
        gate = linear(y, h + "mlp.gate_proj")
        x = x + linear(gate * torch.sigmoid(gate) * linear(y, h + "mlp.up_proj"), h + "mlp.down_proj")
    x = rms_norm(x, get("norm.weight"), config.norm_epsilon)
    return x @ (get("embed_tokens.weight") if config.tied else weights["lm_head.weight"]).t()


def distribution(weights, config, prompt, completion, temperature):
    """Log-probabilities [len(completion), V] at each completion token."""
    logits = forward(weights, config, prompt + completion)[len(prompt) - 1 : -1]
    return torch.log_softmax(logits / temperature, -1)


def logprobs(weights, config, prompt, completion, temperature):
    return distribution(weights, config, prompt, completion, temperature)[range(len(completion)), completion]


def importance(request, sequence, logp):
    """The weight of each token of another policy's completion under the request's correction, for the
    policy logp.
    """
    mu = torch.tensor(sequence.old_logprobs, dtype=logp.dtype)
    total = float((logp - mu).sum())
    if request.correction == "tapered":
        return torch.full_like(logp, min(1.0, math.exp(total)) if sequence.advantage < 0 else 1.0)
    if sequence.advantage < 0 and -total / len(logp) > request.divergence:
        return torch.zeros_like(logp)
    return torch.tensor([min(2.0, math.exp(float(d))) for d in logp - mu], dtype=logp.dtype)


def batch_loss(weights, config, request, old, reference, tokens=None):
    """The loss of the whole batch and its metrics. old and reference are lists of tensors (old may hold
    None).

    tokens holds the weights of external completions' tokens, by sequence. The first call fills it.
    """
    tokens = {} if tokens is None else tokens
    sequences = request.sequences
    all_tokens = sum(len(sequence.completion) for sequence in sequences)
    total, kl_sum, low, high = 0.0, 0.0, 0, 0
    current = []
    for i, sequence in enumerate(sequences):
        logp = logprobs(weights, config, request.prompts[sequence.prompt], sequence.completion, request.temperature)
        current.append(logp.detach())
        behaviour = logp.detach() if old[i] is None else old[i]
        ratio = torch.exp(logp - behaviour)
        a = sequence.advantage
        if request.correction and sequence.external and sequence.old_logprobs:
            a = a * tokens.setdefault(i, importance(request, sequence, logp.detach()))
        bounded = ratio.clamp(max=request.delta) if request.delta else ratio
        token_loss = -torch.min(bounded * a, ratio.clamp(1 - request.epsilon, 1 + request.epsilon_high) * a)
        a = a * torch.ones_like(ratio)
        low += int(((ratio < 1 - request.epsilon) & (a < 0)).sum())
        high += int(((ratio > 1 + request.epsilon_high) & (a > 0)).sum())
        if request.beta:
            d = reference[i] - logp
            kl = torch.exp(d) - d - 1
            kl_sum += float(kl.detach().sum())
            token_loss = token_loss + request.beta * kl
        if request.loss_type == "bnpo":
            total = total + token_loss.sum() / all_tokens
        elif request.loss_type == "grpo":
            total = total + token_loss.mean() / len(sequences)
        else:
            total = total + token_loss.sum() / (len(sequences) * request.max_completion_length)
    return total, current, {"kl": kl_sum / all_tokens, "low": low / all_tokens, "high": high / all_tokens}


def update(weights, config, request, optimizer, first_weights=None):
    """num_iterations steps on weights in place. Returns mean loss, mean norm, last gradients and mean
    metrics.
    """
    reference = None
    if request.beta:
        with torch.no_grad():
            reference = [
                logprobs(first_weights, config, request.prompts[s.prompt], s.completion, request.temperature)
                for s in request.sequences
            ]
    dtype = next(iter(weights.values())).dtype
    given = [None if request.correction and s.external else s.old_logprobs for s in request.sequences]
    old = [None if values is None else torch.tensor(values, dtype=dtype) for values in given]
    losses, norms, metrics, tokens = [], [], [], {}
    for _ in range(request.num_iterations):
        optimizer.zero_grad()
        loss, current, metric = batch_loss(weights, config, request, old, reference, tokens)
        loss.backward()
        old = [c if o is None else o for o, c in zip(old, current)]
        gradients = {name: w.grad.clone() for name, w in weights.items()}
        norms.append(math.sqrt(sum(float((g**2).sum()) for g in gradients.values())))
        if request.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(list(weights.values()), request.max_grad_norm)
        optimizer.step()
        losses.append(float(loss.detach()))
        metrics.append(metric)
    mean = lambda values: sum(values) / len(values)  # noqa: E731
    return mean(losses), mean(norms), gradients, {key: mean([m[key] for m in metrics]) for key in metrics[0]}
