"""The modules that an engine loads: every engine of a host needs memory for them."""

import json
import os
import subprocess
import sys

PARENT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CODE = """
import json, sys
sys.path.insert(0, {parent!r})
from engine import architecture, session  # all that an engine is made of
from engine.adam import Adam
from engine.autograd import repeatable
from engine.gpt2 import Config
from engine.protocol import Sequence, Update
from engine.update import Trainer
before = set(sys.modules)
model = architecture.make_model(Config(29, 64, 32, 4, 2, 128, 1e-5, "tanh", 13))
model.initialise(1)
with repeatable(model.device):
    pass  # a backward pass on CUDA
Trainer(model, Adam(), {checkpointing}).update(Update([[1, 2]], [Sequence(0, [4, 5, 13], 1.0)]))
print(json.dumps(sorted(name for name in set(sys.modules) - before if name in {heavy!r})))
"""
HEAVY = ["sympy", "torch._dynamo", "torch._inductor", "transformers", "triton"]


def loaded(checkpointing):
    code = CODE.format(parent=PARENT, checkpointing=checkpointing, heavy=HEAVY)
    return json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def test_an_update_does_not_load_a_compiler():
    assert loaded(False) == []


def test_gradient_checkpointing_does_not_load_a_compiler():
    assert loaded(True) == []
