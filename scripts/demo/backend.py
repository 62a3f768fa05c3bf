"""Backends that complete a raw prompt: PyTorch with a checkpoint, or the quoth binary with a model
file."""
import json
import random
import subprocess
import tempfile
from pathlib import Path

WINDOW = 512     # window of the perplexity
STOP = ("<|im_end|>", "<|endoftext|>")


class Torch:
    """A checkpoint of train.py (DIR/main.pt) with DIR/tokenizer.json."""
    name = "torch"

    def __init__(self, checkpoint):
        import torch
        from tokenizers import Tokenizer
        from model import Config, Model
        saved = torch.load(checkpoint, map_location="cpu")
        self.torch = torch
        self.model = Model(Config(**saved["config"])).eval()
        self.model.load_state_dict(saved["model"])
        self.tok = Tokenizer.from_file(str(Path(checkpoint).parent / "tokenizer.json"))
        self.stop = {self.tok.token_to_id(s) for s in STOP}

    def complete(self, prompt, max_tokens, temperature=0.0, seed=1):
        from model import generate
        rng = random.Random(seed)
        pick = (lambda l: int(l.argmax())) if temperature == 0 else (lambda l: self.sample(l, temperature, rng))
        ids = generate(self.model, self.tok.encode(prompt, add_special_tokens=False).ids, max_tokens, self.stop, pick)
        return self.tok.decode(ids, skip_special_tokens=False)

    def sample(self, logits, temperature, rng):
        p = (logits / temperature).softmax(-1)
        return rng.choices(range(len(p)), p.tolist())[0]

    def perplexity(self, text):
        """Compute perplexity as quoth does: windows of WINDOW tokens, the second half of each
        scored."""
        import torch.nn.functional as F
        ids = self.torch.tensor(self.tok.encode(text, add_special_tokens=False).ids)
        windows = ids[:len(ids) // WINDOW * WINDOW].view(-1, WINDOW)
        with self.torch.no_grad():
            total = sum(F.cross_entropy(self.model(w[None])[0, WINDOW // 2 - 1:-1], w[WINDOW // 2:], reduction="sum") for w in windows)
        return float((total / (windows.numel() // 2)).exp())


class Quoth:
    """The quoth binary. With --raw its output is the completion, byte for byte."""
    name = "quoth"

    def __init__(self, binary, model):
        self.binary, self.model = str(binary), str(model)

    def complete(self, prompt, max_tokens, temperature=0.0, seed=1):
        command = [self.binary, "run", self.model, prompt, "--raw", "--temperature", str(temperature), "--seed", str(seed),
                   "--max-tokens", str(max_tokens)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for stop in STOP:
            out = out.split(stop)[0]
        return out

    def perplexity(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(text)
            file.flush()
            command = [self.binary, "perplexity", self.model, file.name, "--max-model-len", str(WINDOW), "--json"]
            return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["perplexity"]


def open_backend(args):
    return Torch(args.model) if args.backend == "torch" else Quoth(args.quoth, args.model)
