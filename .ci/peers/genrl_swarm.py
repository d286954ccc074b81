"""One agent of a local swarm of GenRL, over its own torch.distributed backend: `genrl_swarm FOLDER RANK AGENTS PORT ROUNDS`.

The model is nano. A round has 4 own questions and 4 groups of others, of 8 completions of up to 48 tokens each,
and one optimizer step, as in `swarm up 4loc4ext`. Prints a line of JSON after each round. GenRL logs most errors and
continues, so this fails if it logged one.
"""

import json
import logging
import os
import sys

from peers import common

OWN, OTHERS, GENERATIONS, NEW_TOKENS = 4, 4, 8, 48
END, CONTEXT = 256, 256


class Errors(logging.Handler):
    """Keeps what GenRL logs when it continues after an error."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.texts = []

    def emit(self, record):
        if record.levelno >= logging.ERROR or record.getMessage().startswith("Error"):
            self.texts.append(record.getMessage())


def make_tokenizer():
    """A token for each character up to U+00FF. nano has one for each byte, which is the same in ASCII."""
    words = {**{chr(i): i for i in range(END)}, "<eos>": END}
    return common.character_tokenizer(words, chr(0), model_max_length=CONTEXT - NEW_TOKENS)


def write_tasks(path):
    """The tasks of nano, without bf, whose words are no parameter of reasoning-gym."""
    import yaml

    with open(os.path.join(common.ROOT, "configs", "tasks", "nano.yaml"), encoding="utf-8") as file:
        tasks = [t for t in yaml.safe_load(file)["tasks"] if t["name"] != "bf"]
    datasets = [{"name": t["name"], "weight": 1.0, "config": t["params"]} for t in tasks]
    with open(path, "w", encoding="utf-8") as file:
        yaml.safe_dump({"seed": 1, "size": 500, "datasets": datasets}, file)


def make_game(scratch, rank, rounds):
    import torch
    import transformers
    from genrl.communication import Payload
    from genrl.communication.distributed.torch_comm import TorchBackend
    from genrl.examples.rgym.data import ReasoningGymDataManager
    from genrl.examples.rgym.rewards import RGRewards
    from genrl.game.game_manager import BaseGameManager
    from genrl.rewards import DefaultRewardManager, RewardFnStore, RoundRewardFnStore
    from genrl.state import GameState
    from genrl.trainer.grpo_trainer import GRPOLanguageTrainerModule, GRPOTrainerConfig

    Payload.__getitem__ = lambda self, key: getattr(self, key)  # without it 0.3.0 draws nothing: it reads fields as items
    path = os.path.join(scratch, f"tasks{rank}.yaml")
    write_tasks(path)
    data = ReasoningGymDataManager(yaml_config_path=path, num_train_samples=OWN, num_evaluation_samples=0, seed=1000 * (rank + 1), num_transplant_trees=OTHERS)
    data.system_prompt = ""
    torch.manual_seed(rank)
    model = transformers.AutoModelForCausalLM.from_pretrained(os.path.join(common.ROOT, "node", "model", "nano"), dtype=torch.float32)
    config = GRPOTrainerConfig(num_generations=GENERATIONS, max_new_tokens=NEW_TOKENS, learning_rate=1e-4, enable_gradient_checkpointing=False,
                               minibatch_size=(OWN + OTHERS) * GENERATIONS)  # fmt: skip
    trainer = GRPOLanguageTrainerModule([model], config=config,
                                        processing_class=make_tokenizer(), log_dir=scratch, log_with=None)  # fmt: skip
    return BaseGameManager(
        max_stage=1, max_round=rounds, game_state=GameState(round=0, stage=0), trainer=trainer, data_manager=data, communication=TorchBackend(),
        reward_manager=DefaultRewardManager(RewardFnStore(rounds, [RoundRewardFnStore(1, [RGRewards()])] * rounds)),
    )  # fmt: skip


def main():
    scratch, port = sys.argv[1], sys.argv[4]
    rank, agents, rounds = (int(sys.argv[i]) for i in (2, 3, 5))
    import torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:" + port, rank=rank, world_size=agents)
    from genrl.logging_utils.global_defs import get_logger

    errors = Errors()
    get_logger().setLevel(logging.INFO)
    get_logger().addHandler(errors)
    game = make_game(scratch, rank, rounds)
    lengths, generate = [], game.trainer.generate

    def watched_generate(*arguments, **options):
        completions = generate(*arguments, **options)
        lengths.extend(len(text) for group in completions for text in group)  # characters are tokens
        return completions

    def tell():
        print(json.dumps({"round": game.state.round, "length": sum(lengths) / len(lengths)}), flush=True)
        lengths.clear()

    game.trainer.generate, game._hook_after_round_advanced = watched_generate, tell
    game.run_game()
    if errors.texts or game.state.round != rounds:
        sys.exit(f"agent {rank}: {game.state.round} of {rounds} rounds; {'; '.join(errors.texts)[:500]}")


if __name__ == "__main__":
    main()
