"""Train quoth-tiny, or its draft, on the text of data.py. Training runs on two CPU cores, or on a
GPU if available.

    python train.py --out DIR --size main --steps N [--workers 2] [--resume]

DIR receives tokenizer.json (made once), main.pt / draft.pt (a checkpoint, every few minutes) and
main.json / draft.json (a record of the training text). The log has a line every 20 steps. The
progress of a run depends only on steps, never on the clock. The learning rate rises, remains
constant, and falls to zero over the last part (WSD). Rows grow to 1024 tokens near the end. A
resumed run takes the same batches as a run without interruption. Muon trains matrices. AdamW trains
the embedding and the norms.

On CPUs the batch is split among worker processes of one thread each, which add their gradients once
a step. Worker processes are faster than one process with many threads. Other jobs on the same cores
slow worker processes only slightly. """
import argparse
import json
import math
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

from model import Config, Model
from pack import LONG, SHORT, Shards, train_tokenizer

SIZES = {"main": Config(), "draft": Config(hidden=96, ff=192, layers=3, heads=2, kv_heads=1)}
WARMUP = 26                                   # steps
DECAY, LONG_ROWS = 0.29, 0.10                 # shares of the run: falling rate, long rows
TOKENIZER_DOCS = 30000
# Workers keep the memory of a step for the next step, which avoids page faults (glibc; no effect
# elsewhere).
MALLOC = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592"


def rate(step, steps):
    """Return the learning rate's factor: rising, constant, then falling linearly."""
    return min(step / WARMUP, 1.0, max(1.0 - step / steps, 0.0) / DECAY)


def optimizers(model, muon_lr, adam_lr):
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and "embed" not in n]
    others = [p for n, p in model.named_parameters() if p.dim() != 2 or "embed" in n]
    return [torch.optim.Muon(matrices, lr=muon_lr, momentum=0.95, weight_decay=0.01),
            torch.optim.AdamW(others, lr=adam_lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True)]


class Trainer:
    def __init__(self, args, rank=0):
        self.args, self.rank = args, rank
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.manual_seed(args.seed)
        self.model = Model(SIZES[args.size]).to(self.device)
        self.opts = optimizers(self.model, args.muon_lr, args.adam_lr)
        self.base = [o.param_groups[0]["lr"] for o in self.opts]
        self.path = args.out / f"{args.size}.pt"
        self.step = self.tokens = 0
        self.shards, self.taken = [], 0
        self.seconds = 0.0
        if args.resume and self.path.exists():
            self.load()
        self.loss = torch.compile(self.plain_loss) if args.compile else self.plain_loss

    def plain_loss(self, x, y, w):
        logits = self.model(x)
        ce = F.cross_entropy(logits.flatten(0, 1).float(), y.flatten(), reduction="none")
        return (ce * w.flatten()).sum() / w.sum(), (ce * (w.flatten() == 1)).sum() / (w == 1).sum()

    def load(self):
        saved = torch.load(self.path, map_location=self.device)
        self.model.load_state_dict(saved["model"])
        for opt, state in zip(self.opts, saved["opts"]):
            opt.load_state_dict(state)
        self.step, self.tokens, self.seconds, self.shards, self.taken = saved["at"]

    def save(self):
        saved = {"model": self.model.state_dict(), "opts": [o.state_dict() for o in self.opts], "config": self.model.cfg.asdict(),
                 "at": (self.step, self.tokens, self.seconds, self.shards, self.taken)}
        torch.save(saved, self.path.with_suffix(".tmp"))
        self.path.with_suffix(".tmp").rename(self.path)
        record = {"seed": self.args.seed, "steps": self.step, "tokens": self.tokens, "minutes": round(self.seconds / 60, 1), "shards": self.shards}
        self.path.with_suffix(".json").write_text(json.dumps(record) + "\n")

    def progress(self):
        return self.step / self.args.steps

    def train_step(self, rows, weights):
        tokens = torch.from_numpy(rows.astype("int64")).to(self.device)
        w = torch.from_numpy(weights[:, 1:].astype("float32")).to(self.device)
        for opt, base in zip(self.opts, self.base):
            opt.param_groups[0]["lr"] = base * rate(self.step + 1, self.args.steps)
        with torch.autocast(self.device, torch.bfloat16):
            loss, own = self.loss(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), w)
        loss.backward()
        own = self.share(own.item())
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for opt in self.opts:
            opt.step()
            opt.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens += w.numel() * self.args.workers
        return own

    def share(self, own):
        """Average gradients, loss and clock over the workers, so that all workers take the same
        step."""
        self.seconds = time.time() - self.began
        if self.args.workers == 1:
            return own
        grads = [p.grad for p in self.model.parameters()]
        flat = torch.cat([*(g.flatten() for g in grads), torch.tensor([own, self.seconds])])
        dist.all_reduce(flat)
        flat /= self.args.workers
        for g, part in zip(grads, flat.split([*(g.numel() for g in grads), 2])):
            g.copy_(part.view_as(g))
        self.seconds = flat[-1].item()
        return flat[-2].item()

    def row_length(self):
        return LONG if self.progress() >= 1 - LONG_ROWS else SHORT

    def run(self):
        if self.progress() >= 1:
            return
        shards = Shards(self.args.out / "tokenizer.json", self.args.seed, self.shards, self.taken)
        self.began, saved, mean = time.time() - self.seconds, time.time(), math.nan
        for rows, weights in shards.batches(self.row_length, self.args.batch):
            self.taken = shards.taken
            own = self.train_step(rows[self.rank::self.args.workers], weights[self.rank::self.args.workers])
            mean = own if math.isnan(mean) else 0.95 * mean + 0.05 * own
            if self.step % 20 == 0 and self.rank == 0:
                print(f"step {self.step} tokens {self.tokens} minutes {self.seconds / 60:.1f} loss {mean:.4f} "
                      f"lr {rate(self.step, self.args.steps):.3f} tokens/s {self.tokens / self.seconds:.0f}", flush=True)
            if self.rank == 0 and time.time() - saved > 60 * self.args.save_minutes:
                self.save()
                saved = time.time()
            if self.progress() >= 1:
                break
        if self.rank == 0:
            self.save()
        shards.pool.shutdown()


def work(rank, args):
    """Run one worker process."""
    torch.set_num_threads(args.threads)
    if args.workers > 1:
        dist.init_process_group("gloo", init_method=f"file://{args.meeting}", rank=rank, world_size=args.workers)
    Trainer(args, rank).run()
    if args.workers > 1:
        dist.destroy_process_group()


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--out", type=Path, required=True)
    args.add_argument("--size", choices=SIZES, default="main")
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--steps", type=int, default=6000)
    args.add_argument("--save-minutes", type=float, default=4)
    args.add_argument("--batch", type=int, default=8192, help="tokens in a step, of all workers")
    args.add_argument("--muon-lr", type=float, default=0.02)
    args.add_argument("--adam-lr", type=float, default=0.003)
    args.add_argument("--workers", type=int, default=1 if torch.cuda.is_available() else 2)
    args.add_argument("--threads", type=int, default=1, help="of each worker")
    args.add_argument("--no-compile", dest="compile", action="store_false")
    args.add_argument("--resume", action="store_true")
    args = args.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if not (args.out / "tokenizer.json").exists():
        train_tokenizer(args.seed, TOKENIZER_DOCS, args.out / "tokenizer.json")
    if args.workers == 1:
        return work(0, args)
    os.environ.setdefault("GLIBC_TUNABLES", MALLOC)
    with tempfile.TemporaryDirectory() as folder:
        args.meeting = Path(folder) / "meeting"
        mp.spawn(work, (args,), args.workers)


if __name__ == "__main__":
    main()
