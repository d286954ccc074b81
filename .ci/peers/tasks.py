"""Items and scores of the nine tasks beside reasoning-gym's, live: 1,000 items of random seeds each.

The task sets are paper and nano. SWARM_PEERS_SEED repeats the draw of a run, which its answer names.
"""

import json
import os
import random
import sys

import reasoning_gym
import yaml
from reasoning_gym.data.wordle_words import wordle_words

from peers import common

SETS = {"paper": 10, "nano": 2}  # the number of seeds of each task
ITEMS = 100  # of each seed


def swarm(arguments, lines=None):
    """The JSON lines that the program prints."""
    text = None if lines is None else "".join(json.dumps(line) + "\n" for line in lines)
    return [json.loads(line) for line in common.swarm(*arguments, text=text).splitlines()]


def answers(item, others, rng):
    """Texts to score: the right one, spoiled ones, another item's, and none."""
    right = item["answer"]
    texts = [right, None, "", "0", rng.choice(others)["answer"]]
    if right is not None:
        texts += [f" {right}\n", right + "1", right[:-1], right.upper(), f"the answer is {right}"]
    return texts


def score(dataset, text, item):
    """The library's score, or 0 where its scorer raises, as docs/ALGORITHM.md says of ours."""
    try:
        return dataset.score_answer(text, item)
    except Exception:
        return 0.0


def compare(name, task, rng, path):
    """Counts of items and scores of a task of a set, and what differs in words."""
    differ = []
    items = scores = 0
    params, words = dict(task["params"]), []
    if task["name"] == "bf":  # the library has its own words, whatever the set
        params.pop("words", None)
        words = ["--words", path]
    for _ in range(SETS[name]):
        seed = rng.randrange(1 << 31)
        dataset = reasoning_gym.create_dataset(task["name"], seed=seed, size=ITEMS, **params)
        theirs = [dataset[i] for i in range(ITEMS)]
        ours = swarm(["task", "sample", task["name"], "--set", name, "--seed", str(seed), "-n", str(ITEMS), "-o", "json", *words])
        if len(ours) != ITEMS:
            differ.append(f"{name} {task['name']} seed {seed}: {len(ours)} items against {ITEMS}")
        lines, expected = [], []
        for i, (a, b) in enumerate(zip(ours, theirs)):
            b = json.loads(json.dumps(b, default=str))
            for field in ("answer", "metadata"):
                if a[field] != b[field]:
                    differ.append(f"{name} {task['name']} seed {seed} item {i}: {field} {a[field]!r:.120} against {b[field]!r:.120}")
            items += 1
            for text in answers(theirs[i], theirs, rng):
                lines.append({"entry": a, "answer": text})
                expected.append(score(dataset, text, theirs[i]))
        scored = swarm(["task", "score", task["name"], "--set", name, *words], lines)
        if len(scored) != len(lines):
            differ.append(f"{name} {task['name']} seed {seed}: {len(scored)} scores against {len(lines)}")
        for line, given, want in zip(lines, scored, expected):
            scores += 1
            if abs(given["score"] - want) > 1e-12:
                differ.append(f"{name} {task['name']} seed {seed}: {line['answer']!r:.80} scores {given['score']} against {want}")
    return items, scores, differ


def main():
    path = os.path.join(sys.argv[1], "words.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(wordle_words))
    seed = int(os.environ.get("SWARM_PEERS_SEED") or random.randrange(1 << 31))
    rng = random.Random(seed)
    tasks = items = scores = 0
    differ = []
    for name in SETS:
        with open(os.path.join(common.ROOT, "configs", "tasks", name + ".yaml"), encoding="utf-8") as file:
            for task in yaml.safe_load(file)["tasks"]:
                more_items, more_scores, found = compare(name, task, rng, path)
                tasks, items, scores, differ = tasks + 1, items + more_items, scores + more_scores, differ + found
    for line in differ[:20]:
        print(line)
    note = f"{len(differ)} differences, the first: {differ[0]}; SWARM_PEERS_SEED={seed} repeats the draw" if differ else ""
    measured = f"{items:,} items (answer, metadata) and {scores:,} scores of {tasks} tasks of the sets {' and '.join(SETS)}, seed {seed}"
    common.answer(measured, "differs" if differ else "equal", note)


if __name__ == "__main__":
    main()
