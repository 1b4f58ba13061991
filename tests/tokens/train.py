"""Trains the small tokenizers of these tests and records what the reference makes of the text, with the package `tokenizers`:

    python3 train.py TEXT...        # files to train on; writes *.json, merges.txt and *.ids beside this script
    python3 train.py --check TEXT   # ids of TEXT by each tokenizer, one line each: NAME ID ID ..
    python3 train.py --patterns     # for each pattern of patterns.txt the bytes of the pieces into which it cuts patterns.text
"""
import json, os, sys
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
LEVEL = pre_tokenizers.ByteLevel
# name -> how the text is cut, does a word of the vocabulary stay whole
KINDS = {
    "level": (LEVEL(add_prefix_space=False), False),
    "split": (pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "isolated"),
                                       LEVEL(add_prefix_space=False, use_regex=False)]), True),
    "matches": (pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "removed", invert=True),
                                         pre_tokenizers.Split("e", "isolated"),
                                         LEVEL(add_prefix_space=True, use_regex=True)]), False),
}


def read(path):
    with open(path, encoding="utf-8", newline="") as f:
        return f.read()


def train(name, texts):
    tokenizer = Tokenizer(models.BPE(ignore_merges=KINDS[name][1]))
    tokenizer.pre_tokenizer = KINDS[name][0]
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=700, special_tokens=["<|endoftext|>"], initial_alphabet=LEVEL.alphabet(), show_progress=False))
    tokenizer.add_special_tokens(["<|user|>", "<|user|end|>"])
    tokenizer.add_tokens([AddedToken("quick brown", normalized=True), AddedToken("<|us", normalized=True)])
    tokenizer.save(os.path.join(HERE, name + ".json"), pretty=False)


def patterns():
    text = read(os.path.join(HERE, "patterns.text"))
    for pattern in read(os.path.join(HERE, "patterns.txt")).splitlines():
        pieces = pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str(text)
        print(*(len(text[low:high].encode()) for _, (low, high) in pieces))


def main():
    if sys.argv[1] == "--patterns":
        return patterns()
    check = sys.argv[1] == "--check"
    if not check:
        texts = [read(p) for p in sys.argv[1:]]
        for name in KINDS:
            train(name, texts)
        model = json.loads(read(os.path.join(HERE, "level.json")))["model"]
        with open(os.path.join(HERE, "vocab.json"), "w", encoding="utf-8") as f:
            json.dump(model["vocab"], f, ensure_ascii=False)
        with open(os.path.join(HERE, "merges.txt"), "w", encoding="utf-8") as f:
            f.write("#version: 0.2\n" + "".join((m if isinstance(m, str) else " ".join(m)) + "\n" for m in model["merges"]))
    text = read(sys.argv[2] if check else os.path.join(HERE, "multilingual.txt"))
    for name in KINDS:
        tokenizer = Tokenizer.from_file(os.path.join(HERE, name + ".json"))
        ids = " ".join(map(str, tokenizer.encode(text, add_special_tokens=False).ids))
        if check:
            print(name, ids)
        else:
            with open(os.path.join(HERE, name + ".ids"), "w") as f:
                f.write(ids + "\n")


main()
