"""The engine: a small child process that holds one language model, samples from it and trains it with GRPO.

It speaks the line protocol of node/policy/protocol.go on stdin and stdout (`python3 -u -m engine`) and knows tensors
and token ids only: no text, no tasks, no rewards. It needs PyTorch 1.13 or later (on CUDA 2.1, whose attention takes
a mask without holding all scores) and the standard library, nothing else. Importing this package imports no torch;
`environment.prepare` must run before torch is first imported.
"""
