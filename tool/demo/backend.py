"""Who answers: PyTorch with a checkpoint, or the quoth binary with a model file. Both complete a raw prompt."""
import random
import subprocess
from pathlib import Path

STOP = ("<|im_end|>", "<|endoftext|>")


class Torch:
    """A checkpoint of train.py (DIR/main.pt) with DIR/tokenizer.json."""
    name = "torch"

    def __init__(self, checkpoint):
        import torch
        from tokenizers import Tokenizer
        from model import Config, Model
        saved = torch.load(checkpoint, map_location="cpu")
        self.torch, self.shards = torch, saved["at"][2]
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

    def perplexity(self, texts):
        """Per token, each text from its own beginning."""
        import torch.nn.functional as F
        total = count = 0
        for text in texts:
            ids = self.torch.tensor([self.tok.encode(text, add_special_tokens=False).ids[:self.model.cfg.context]])
            with self.torch.no_grad():
                logits = self.model(ids)[0, :-1]
            total += F.cross_entropy(logits, ids[0, 1:], reduction="sum").item()
            count += ids.shape[1] - 1
        return float(self.torch.tensor(total / count).exp())


class Quoth:
    """The quoth binary; --raw gives the completion alone, byte for byte."""
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

    def perplexity(self, texts):
        return None


def open_backend(args):
    return Torch(args.model) if args.backend == "torch" else Quoth(args.quoth, args.model)
