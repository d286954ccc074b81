"""Writes random texts of many scripts and their ids, by Hugging Face's tokenizers, as JSON: {"texts", "ids"}.

    python tokens.py FOLDER SEED > FILE

FOLDER has tokenizer.json. The texts contain only characters that this Python's Unicode version knows, because newer ones
are letters in one library and unknown in another, and no special token, because those are never in a question.
"""

import json
import os
import random
import sys
import unicodedata

import tokenizers

COUNT = 3000
# First and last code point of scripts and of signs.
BLOCKS = (
    (0x20, 0x7E), (0xA0, 0x24F), (0x250, 0x2AF), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x58F), (0x590, 0x5FF), (0x600, 0x6FF),
    (0x900, 0x97F), (0x980, 0x9FF), (0xB80, 0xBFF), (0xE00, 0xE7F), (0xF00, 0xFFF), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137F),
    (0x13A0, 0x13FF), (0x1780, 0x17FF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x218F), (0x2190, 0x23FF), (0x2460, 0x24FF), (0x2600, 0x27BF),
    (0x3000, 0x30FF), (0x3100, 0x33FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xE000, 0xE0FF), (0xFB00, 0xFDFF), (0xFE00, 0xFFEF),
    (0x10300, 0x1034F), (0x12000, 0x123FF), (0x1D400, 0x1D7FF), (0x1F000, 0x1FAFF), (0x20000, 0x2A6DF),
)  # fmt: skip
PIECES = (" ", "  ", "\n", "\t", "\r\n", "'s", "'LL", "don't", " the", "12", "3.5", "\u00a0", "\u200d", "\u0301", "½", "٣")


def characters():
    """The known characters of each block."""
    known = lambda x: unicodedata.category(chr(x)) not in ("Cn", "Cs")
    return [[chr(x) for x in range(first, last + 1) if known(x)] for first, last in BLOCKS]


def text(rng, blocks):
    """Up to 60 characters of one to three blocks, or pieces between them."""
    chosen = rng.sample(blocks, rng.randint(1, 3))
    return "".join(rng.choice(PIECES) if rng.random() < 0.3 else rng.choice(rng.choice(chosen)) for _ in range(rng.randint(0, 60)))


def main():
    folder, seed = sys.argv[1:]
    rng, blocks = random.Random(int(seed)), characters()
    texts = ["", " ", "Hello world", "I'll say they've 42 don'ts", "🙂👩‍👩‍👧‍👦🇩🇪👍🏽"] + [text(rng, blocks) for _ in range(COUNT)]
    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    json.dump({"texts": texts, "ids": [tokenizer.encode(t).ids for t in texts]}, sys.stdout)


if __name__ == "__main__":
    main()
