"""The training loop of all trainers: it draws an effective batch, splits it into micro-batches, and sums their
gradients.
"""

import shutil
import tempfile

import memory
import switches


def train(torch, model, draw, loss_of, options, batch_size, accumulate, steps, rate, offload=False, step_around=None):
    """Trains and prints one line per step, and returns the last loss.

    draw(n, generator) returns a batch of n samples: a tuple of tensors with first dimension n. loss_of(model, batch)
    returns the sum of their losses. Each step draws batch_size x accumulate samples, so that 32 x 1 and 8 x 4 get the
    same samples.
    offload: keep tensors for backward in files. step_around(step): wraps a step of the optimizer.
    """
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=rate)
    more, effective, done, loss = switches.Steps(options), batch_size * accumulate, 0, float("nan")
    generator = torch.Generator().manual_seed(7)
    warm = draw(1, torch.Generator().manual_seed(1))
    loss_of(model, warm).backward()  # allocate threads, BLAS's buffers and gradients before the limit
    optimizer.zero_grad(set_to_none=False)
    memory.limit(memory.wanted(options.memory))
    folder = tempfile.mkdtemp(prefix="offload-") if offload else None
    try:
        while not more.over(done, steps):
            more.before(torch)
            state, total = generator.get_state(), 0.0
            try:
                samples = draw(effective, generator)
                for begin in range(0, effective, batch_size):
                    micro = tuple(part[begin:begin + batch_size] for part in samples)
                    total += _micro(torch, model, loss_of, micro, effective, folder)
            except RuntimeError as error:
                if not options.catch or "allocate memory" not in str(error) or batch_size == 1:
                    raise
                print("caught: {}".format(error), flush=True)
                batch_size, accumulate = batch_size // 2, effective // (batch_size // 2)
                effective = batch_size * accumulate
                generator.set_state(state)
                optimizer.zero_grad(set_to_none=False)
                continue
            norm = sum(float(p.grad.pow(2).sum()) for p in model.parameters() if p.grad is not None) ** 0.5
            (step_around or (lambda step: step()))(optimizer.step)
            optimizer.zero_grad(set_to_none=False)
            done, loss = done + 1, total
            print("step {} loss={:.6f} grad_norm={:.6f}".format(done, loss, norm), flush=True)
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    print("done loss={:.6f} batch_size={} accumulate={} effective_batch={} peak_mb={}".format(
        loss, batch_size, accumulate, effective, memory.most_held() >> 20), flush=True)
    return loss


def _micro(torch, model, loss_of, micro, effective, folder):
    if folder is None:
        loss = loss_of(model, micro) / effective
        loss.backward()
        return float(loss.detach())
    with torch.autograd.graph.saved_tensors_hooks(*_files(torch, folder)):
        loss = loss_of(model, micro) / effective
        loss.backward()  # tensors that checkpointing recomputes are in files, too
    return float(loss.detach())


def _files(torch, folder):
    """Returns two hooks that keep tensors for backward in files."""
    names = iter(range(1 << 62))

    def pack(tensor):
        if tensor.numel() < 1 << 14 or tensor.is_leaf and tensor.requires_grad:
            return tensor
        path = "{}/{}".format(folder, next(names))
        torch.save(tensor.detach().clone(), path)
        return path

    def unpack(packed):
        return torch.load(packed) if isinstance(packed, str) else packed

    return pack, unpack
