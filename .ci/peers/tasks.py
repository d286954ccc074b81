"""Items and scores of the nine tasks beside reasoning-gym's, live: 1,000 items of random seeds each."""

import json
import os
import random
import sys

import reasoning_gym
import yaml
from reasoning_gym.data.wordle_words import wordle_words

from peers import common

SEEDS, ITEMS = 10, 100  # of each task


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


def compare(task, rng, path):
    """Counts of items and scores, and what differs in words."""
    differ = []
    items = scores = 0
    words = ["--words", path] if task["name"] == "bf" else []
    for _ in range(SEEDS):
        seed = rng.randrange(1 << 31)
        dataset = reasoning_gym.create_dataset(task["name"], seed=seed, size=ITEMS, **task["params"])
        theirs = [dataset[i] for i in range(ITEMS)]
        ours = swarm(["task", "sample", task["name"], "--seed", str(seed), "-n", str(ITEMS), "-o", "json", *words])
        lines, expected = [], []
        for i, (a, b) in enumerate(zip(ours, theirs)):
            b = json.loads(json.dumps(b, default=str))
            for field in ("answer", "metadata"):
                if a[field] != b[field]:
                    differ.append(f"{task['name']} seed {seed} item {i}: {field} {a[field]!r:.120} against {b[field]!r:.120}")
            items += 1
            for text in answers(theirs[i], theirs, rng):
                lines.append({"entry": a, "answer": text})
                expected.append(dataset.score_answer(text, theirs[i]))
        for line, score, want in zip(lines, swarm(["task", "score", task["name"], *words], lines), expected):
            scores += 1
            if abs(score["score"] - want) > 1e-12:
                differ.append(f"{task['name']} seed {seed}: {line['answer']!r:.80} scores {score['score']} against {want}")
    return items, scores, differ


def main():
    with open(os.path.join(common.ROOT, "configs", "tasks", "paper.yaml"), encoding="utf-8") as file:
        tasks = yaml.safe_load(file)["tasks"]
    path = os.path.join(sys.argv[1], "words.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(wordle_words))
    rng = random.Random(20261127)
    items = scores = 0
    differ = []
    for task in tasks:
        more_items, more_scores, found = compare(task, rng, path)
        items, scores, differ = items + more_items, scores + more_scores, differ + found
    for line in differ[:20]:
        print(line)
    note = f"{len(differ)} differences, the first: {differ[0]}" if differ else ""
    measured = f"{items:,} items (answer, metadata) and {scores:,} scores of {len(tasks)} tasks"
    common.answer(measured, "differs" if differ else "equal", note)


if __name__ == "__main__":
    main()
