"""A fake CUDA device: its tensors have shapes, dtypes and a device, but no numbers.

`FakeCuda` runs the engine's own code on such tensors (torch's FakeTensorMode, from torch 2.6 without a
driver). An operation on tensors of two devices or two dtypes raises there as on a card. So does every
operation that would make the host wait for the device: `HostWaits`. It cannot show numbers, speed, or what
only a card's kernels refuse.
"""

import contextlib

import torch

DEVICE = torch.device("cuda", 0)
OLDEST = (2, 6)  # oldest torch: before it a tensor on "cuda" needs a driver, even a fake one
AVAILABLE = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= OLDEST and not torch.cuda.is_available()
REASON = f"torch {torch.__version__}: fake CUDA tensors need torch {OLDEST[0]}.{OLDEST[1]} or newer and no CUDA device"

if AVAILABLE:
    from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode, unset_fake_temporarily
else:
    DataDependentOutputException = FakeTensor = None
    FakeTensorMode = object

# Operations that need tensors of one dtype, and those with lists of tensors, which must be on one device.
ALIKE = {"mm", "bmm", "addmm", "addmm_", "baddbmm", "index_add_", "index_copy_", "index_put_", "scatter_", "scatter_add_", "searchsorted"}
LISTS = {"_fused_adam_"}

ANYTHING, READS_NOTHING, FIXED = "anything", "reads nothing", "fixed"


class HostWaits(RuntimeError):
    """The host would have waited for the device here."""


class FakeCuda(FakeTensorMode):
    """A context manager in which "cuda" is a device with fake tensors.

    `host` is what the host may do at present. ANYTHING: it may wait; a number read back is 1, but a tensor
    made from a list returns its list. READS_NOTHING: it may send to the device, but not wait for a result.
    FIXED: no transfer at all, as within a CUDA graph.
    """

    def __init__(self, monkeypatch):
        super().__init__(allow_non_fake_inputs=False)
        self.host = ANYTHING
        monkeypatch.setattr(torch, "tensor", self._sending(torch.tensor))
        monkeypatch.setattr(FakeTensor, "tolist", self._reading(FakeTensor.tolist))
        # A FakeTensor's device is an attribute of the Python object, which torch's own setter of `data` does
        # not update.
        data = torch.Tensor.data
        monkeypatch.setattr(FakeTensor, "data", property(data.__get__, _set_data), raising=False)
        monkeypatch.setattr(torch.Tensor, "backward", backward)
        monkeypatch.setattr(torch.autograd, "grad", lambda tensor, leaves, **_: grad(tensor, leaves))
        monkeypatch.setattr(torch.cuda, "Stream", FakeStream)
        monkeypatch.setattr(torch.cuda, "current_stream", FakeStream)
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
        # Otherwise torch.autocast("cuda") warns and does nothing.
        monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *_, **__: True)

    @contextlib.contextmanager
    def only(self, host):
        """A context in which the host may do no more than this."""
        before, self.host = self.host, host
        try:
            yield
        finally:
            self.host = before

    def allowing(self, host, function):
        """Returns function wrapped in `only`."""

        def wrapped(*arguments, **named):
            with self.only(host):
                return function(*arguments, **named)

        return wrapped

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name, kwargs = func.overloadpacket.__name__, kwargs or {}
        if name == "_local_scalar_dense" and _on_device(args[0]):
            if self.host != ANYTHING:
                raise HostWaits(f"a number of {args[0]} is read")
            return 1.0 if args[0].is_floating_point() else 1
        _check(name, args)
        try:
            result = super().__torch_dispatch__(func, types, args, kwargs)
        except DataDependentOutputException as error:
            raise HostWaits(str(error)) from error
        if name in ("_to_copy", "copy_", "_copy_from"):
            self._travels(args[0], args[1] if name == "copy_" else result, name == "copy_", kwargs)
        return result

    def _travels(self, one, other, in_place, kwargs):
        """Raises if this copy is not allowed now."""
        source, target = (other, one) if in_place else (one, other)
        if _on_device(source) == _on_device(target):
            return
        if self.host == FIXED or (self.host == READS_NOTHING and _on_device(source) and not kwargs.get("non_blocking")):
            raise HostWaits(f"a copy from {source.device} to {target.device}")

    def _sending(self, make):
        def tensor(data, dtype=None, device=None):
            # Torch would keep the number of a one-element tensor, and need the driver to send it.
            with unset_fake_temporarily():
                real = make(data, dtype=dtype)
            made = torch.empty(real.shape, dtype=real.dtype, device=device)
            if _on_device(made) and self.host == FIXED:
                raise HostWaits("a list is sent to the device")
            made.sent = data
            return made

        return tensor

    def _reading(self, read):
        def tolist(tensor):
            if self.host == ANYTHING and hasattr(tensor, "sent"):
                return tensor.sent
            return read(tensor)

        return tolist


def _check(name, args):
    """Checks that kernels make and fakes do not: two dtypes in one product, and lists of tensors on two
    devices.
    """
    if name in ALIKE and len({tensor.dtype for tensor in args if isinstance(tensor, torch.Tensor) and tensor.is_floating_point()}) > 1:
        raise RuntimeError(f"{name} of several dtypes: {args}")
    if name in LISTS and len({tensor.device for tensors in args if isinstance(tensors, (list, tuple)) for tensor in tensors}) > 1:
        raise RuntimeError(f"{name} on several devices: {args}")


def _on_device(tensor):
    return isinstance(tensor, torch.Tensor) and tensor.device.type == "cuda"


def _set_data(tensor, value):
    torch.Tensor.data.__set__(tensor, value)
    tensor.fake_device = value.fake_device


class FakeStream:
    """Replaces torch.cuda.Stream. There is no work to order."""

    def __init__(self, device=None):
        self.device = device

    def wait_stream(self, stream):
        pass

    def synchronize(self):
        pass


def backward(tensor):
    """Replaces Tensor.backward of a scalar: adds to the gradients of the leaves."""
    for leaf, found in gradients_of(tensor, torch.ones_like(tensor)):
        leaf.grad = found if leaf.grad is None else leaf.grad.add_(found)


def grad(tensor, leaves):
    """Replaces torch.autograd.grad, for leaves only; None for leaves that are not found."""
    found = {id(leaf): value for leaf, value in gradients_of(tensor, torch.ones_like(tensor))}
    return tuple(found.get(id(leaf)) for leaf in leaves)


@torch.no_grad()
def gradients_of(tensor, gradient):
    """Walks autograd's graph from tensor. Returns pairs of a leaf and its gradient. torch's own engine
    needs the driver's streams.
    """
    leaves = []
    order, seen, stack = [], set(), [(tensor.grad_fn, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((following, False) for following, _ in node.next_functions if following is not None and following not in seen)
    gradients = {tensor.grad_fn: {tensor.output_nr: _fitted(gradient, tensor.grad_fn._input_metadata[tensor.output_nr])}}
    for node in reversed(order):
        given = gradients.pop(node, {})
        if not given:
            continue
        if hasattr(node, "variable"):
            leaves.append((node.variable, given[0]))
            continue
        run = node.apply if isinstance(node, torch.autograd.function.BackwardCFunction) else node
        results = run(*(given.get(i) for i in range(len(node._input_metadata))))
        for (following, number), result in zip(node.next_functions, results if isinstance(results, tuple) else (results,)):
            if following is not None and result is not None:
                result = _fitted(result, following._input_metadata[number])
                sums = gradients.setdefault(following, {})
                sums[number] = sums[number] + result if number in sums else result
    return leaves


def _fitted(gradient, metadata):
    """The gradient as autograd passes it on: summed to the shape and cast to the dtype. Raises for
    another device.
    """
    if gradient.device != metadata.device:
        raise RuntimeError(f"a gradient on {gradient.device} for a tensor on {metadata.device}")
    return gradient.sum_to_size(metadata.shape).to(metadata.dtype)
