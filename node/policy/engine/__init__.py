"""The engine: a small child process that holds one language model, samples from it and trains it with
GRPO.

It serves the line protocol of node/policy/protocol.go on stdin and stdout (`python3 -u -m engine`). It
handles only tensors and token ids: no text, no tasks, no rewards. It needs only the standard library and
PyTorch 1.13 or later. On CUDA it needs 2.1, whose attention accepts a mask without storing all scores.
Importing this package does not import torch. Call `environment.prepare` before the first import of torch.
"""
