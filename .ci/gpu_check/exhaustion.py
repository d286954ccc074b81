"""A child that makes an engine's session run out of memory, and reports the exception: class, text, and the engine's
classification.
"""

import argparse
import os
import random

import facts
import model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--case", choices=("cap", "full", "full-load"))
    parser.add_argument("--rows", type=int, default=32)
    options = parser.parse_args()
    facts.begin()
    from engine import environment

    environment.prepare(os.environ)
    with facts.step("start"):
        force(options)


def force(options):
    import torch

    from engine import protocol, session

    ours = session.Session()
    load = protocol.Load(options.model, device="cuda", precision="tf32")
    prompts, rng = model.prompts(4, 192, 50257, seed=1), random.Random(0)
    completions = model.prompts(options.rows, 256, 50257, seed=2)
    rows = [protocol.Sequence(i % 4, completion, rng.choice((-1.0, 1.0))) for i, completion in enumerate(completions)]
    update = protocol.Update(prompts, rows, micro_batch=options.rows, learning_rate=1e-6)
    if options.case == "full-load":
        return tell(lambda: ours.load(load), ours)
    ours.load(load)
    if options.case == "cap":
        held = torch.cuda.memory_reserved()
        # Enough for Adam's moments and the gradients, but not for the activations of all rows.
        ours.configure(protocol.Configure(memory_cap_bytes=held + (1700 << 20)))
    if tell(lambda: ours.update(update), ours):
        with facts.step("after it"):
            ours.release()
            ours.generate(protocol.Generate(prompts, 1, 4))
            facts.tell("lives on", True)


def tell(work, ours):
    """Returns whether work raised an exception, and reports facts about it."""
    from engine import shortage

    try:
        work()
    except Exception as error:  # noqa: BLE001 - the exception is the result
        kinds = type(error).__mro__
        facts.tell("class", f"{kinds[0].__module__}.{kinds[0].__qualname__} < {kinds[1].__qualname__}")
        facts.tell("text", str(error)[:1000])
        facts.tell("recognized", bool(shortage.is_out_of_memory(error)))
        with facts.step("cause"):
            facts.tell("cause", ours.shortage(error))
        return True
    facts.tell("class", "nothing was raised")
    return False


if __name__ == "__main__":
    main()
