"""A trainer without SAPO as a node of a swarm: a softmax policy over the arms of a contextual bandit, trained by
REINFORCE with a baseline (Williams 1992). It uses only the standard library.

    swarm up --node-command "python3 notebooks-bridge/examples/reinforce.py" --name bandit --device cpu --nodes 2 --rounds 50

It shows all uses of swarm_bridge.Node: leases, rounds, checkpoints and resuming from one, an orderly stop, and a
memory failure that the launcher understands. To use it as a template, replace Policy and play().
"""

import json
import math
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))  # not needed once swarm_bridge is installed

import swarm_bridge

CONTEXTS, ARMS, BATCH, RATE = 4, 5, 64, 0.1


class Bandit:
    """Pays 1 with a probability that depends on context and arm. All nodes of a run have the same bandit."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.chances = [[draw.random() for _ in range(ARMS)] for _ in range(CONTEXTS)]


class Policy:
    """logits[context][arm], and a running mean of rewards as the baseline."""

    def __init__(self):
        self.logits = [[0.0] * ARMS for _ in range(CONTEXTS)]
        self.baseline, self.rounds = 0.0, 0

    def probabilities(self, context):
        top = max(self.logits[context])
        weights = [math.exp(v - top) for v in self.logits[context]]
        return [w / sum(weights) for w in weights]

    def save(self, path):
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(vars(self), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)

    def restore(self, path):
        with open(path, encoding="utf-8") as file:
            vars(self).update(json.load(file))


def play(policy, bandit, draw):
    """Returns one batch of (context, arm, reward)."""
    plays = []
    for _ in range(BATCH):
        context = draw.randrange(CONTEXTS)
        arm = draw.choices(range(ARMS), policy.probabilities(context))[0]
        plays.append((context, arm, 1.0 if draw.random() < bandit.chances[context][arm] else 0.0))
    return plays


def update(policy, plays):
    """One step of REINFORCE. Returns the loss, the gradient's norm and the policy's mean entropy in nats."""
    gradient = [[0.0] * ARMS for _ in range(CONTEXTS)]
    loss = 0.0
    for context, arm, reward in plays:
        chances = policy.probabilities(context)
        advantage = reward - policy.baseline
        loss -= advantage * math.log(chances[arm]) / len(plays)
        for other in range(ARMS):
            gradient[context][other] += advantage * ((other == arm) - chances[other])
    for context in range(CONTEXTS):
        for arm in range(ARMS):
            policy.logits[context][arm] += RATE * gradient[context][arm]
    policy.baseline += 0.1 * (sum(p[2] for p in plays) / len(plays) - policy.baseline)
    norm = math.sqrt(sum(g * g for row in gradient for g in row)) / len(plays)
    entropy = -sum(p * math.log(p) for c in range(CONTEXTS) for p in policy.probabilities(c) if p > 0) / CONTEXTS
    return loss, norm, entropy


def main():
    node = swarm_bridge.Node()
    policy, path = Policy(), os.path.join(node.dir, "policy.json")
    if os.path.exists(path):
        policy.restore(path)
    bandit = Bandit(node.seed)
    node.loaded(model="bandit", parameters=CONTEXTS * ARMS)
    print("continues at round", policy.rounds)  # to the node's log: the launcher owns stdout
    every = node.config["checkpoint_every"] or node.rounds
    for number in range(policy.rounds, node.rounds):
        if node.stopping:
            break
        draw = random.Random("{} {} {}".format(node.seed, node.name, number))  # equal for every repetition of the round
        node.state("generating", number)
        with node.lease("generate"):
            began = time.monotonic()
            plays = play(policy, bandit, draw)
            generate = time.monotonic() - began
        node.state("updating", number)
        with node.lease("update"):
            began = time.monotonic()
            loss, norm, entropy = update(policy, plays)
            update_time = time.monotonic() - began
        policy.rounds = number + 1
        rewards = [p[2] for p in plays]
        node.round(number, reward=sum(rewards) / BATCH, loss=loss, grad_norm=norm, entropy=entropy, completions=BATCH, steps=1,
                   generate_time=generate, update_time=update_time,
                   tasks=[{"task": "bandit", "completions": BATCH, "reward_sum": sum(rewards)}])
        if policy.rounds % every == 0 or policy.rounds == node.rounds:
            policy.save(path)
            node.checkpoint(path, policy.rounds)
    if policy.rounds < node.rounds:  # after a stop: a restarted node resumes here
        policy.save(path)
        node.checkpoint(path, policy.rounds)


if __name__ == "__main__":
    main()
