"""Cost of int8 activations by the number of values that share a scale: KL divergence from f32
activations.

    python act_groups.py --model build/demo/quoth-tiny [--factor 64] [--share 0.005]

Two checkpoints are compared: the given checkpoint, and the same function with outliers. Outliers
are a share of the channels that enter linear layers (--share), multiplied by --factor. The weights
that read outliers are divided by --factor. Activations are rounded as in quoth: scale = amax / 127
of a group, to nearest even. Weights remain f32, so only activations differ.
"""
import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer

from eval import perplexity_text

GROUPS = (32, 64, 128, 256)
N_WINDOW, WINDOW = 24, 256


def rounded(x, group):
    """Round every `group` values of the last dimension of x to an int8 grid with a separate scale."""
    n = x.shape[-1]
    padded = F.pad(x, (0, -n % group)).unflatten(-1, (-1, group))
    scale = padded.abs().amax(-1, keepdim=True) / 127
    q = torch.where(scale > 0, (padded / scale).round(), padded)
    return (q * scale).flatten(-2)[..., :n]


def with_outliers(model, factor, share):
    """Multiply channels of norms and of up by factor, and divide the weights that read these
    channels."""
    make = torch.Generator().manual_seed(1)
    def some(n):
        return torch.randperm(n, generator=make)[: max(1, round(share * n))]
    with torch.no_grad():
        for layer in model.model.layers:
            for norm, readers in ((layer.input_layernorm, (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj)),
                                  (layer.post_attention_layernorm, (layer.mlp.gate_proj, layer.mlp.up_proj))):
                c = some(norm.weight.numel())
                norm.weight[c] *= factor
                for reader in readers:
                    reader.weight[:, c] /= factor
            c = some(layer.mlp.up_proj.weight.shape[0])
            layer.mlp.up_proj.weight[c] *= factor
            layer.mlp.down_proj.weight[:, c] /= factor


def log_probs(model, windows, group):
    hooks = []
    if group:
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                hooks.append(module.register_forward_pre_hook(lambda _, args: (rounded(args[0], group), *args[1:])))
    with torch.no_grad():
        out = F.log_softmax(model(windows).logits.double(), -1)
    for hook in hooks:
        hook.remove()
    return out


def divergence(p, q):
    return (p.exp() * (p - q)).sum(-1)


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--model", type=Path, required=True)
    args.add_argument("--factor", type=float, default=64)
    args.add_argument("--share", type=float, default=0.005)
    args = args.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    ids = tokenizer(perplexity_text(60), return_tensors="pt", add_special_tokens=False).input_ids[0]
    windows = ids[: N_WINDOW * WINDOW].view(-1, WINDOW)
    print(f"{'weights':10} {'group':>5} {'mean KL':>10} {'p99 KL':>10} {'same top':>9} {'perplexity':>11}")
    for name in ("as trained", "outliers"):
        model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
        if name == "outliers":
            with_outliers(model, args.factor, args.share)
        exact = log_probs(model, windows, None)
        for group in (None, *GROUPS):
            got = log_probs(model, windows, group)
            kl = divergence(exact, got).flatten()
            loss = -got[:, :-1].gather(-1, windows[:, 1:, None]).mean()
            same = (got.argmax(-1) == exact.argmax(-1)).double().mean()
            print(f"{name:10} {group or 'f32':>5} {kl.mean():10.2e} {kl.quantile(0.99):10.2e} {100 * same:8.2f}% {loss.exp():11.4f}", flush=True)


if __name__ == "__main__":
    main()
