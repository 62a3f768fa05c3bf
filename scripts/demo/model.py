"""A short implementation of the Qwen3 architecture in PyTorch.

Parameter names are Hugging Face's (Qwen3ForCausalLM), so a state dict is a checkpoint that every
loader reads. The head is tied to the embedding. Training runs whole rows (causal, no padding mask).
`generate` is a greedy loop with a key/value cache, enough for evaluation.
"""
from dataclasses import dataclass, asdict

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    vocab: int = 4096
    hidden: int = 256
    ff: int = 512
    layers: int = 6
    heads: int = 4
    kv_heads: int = 2
    d_head: int = 64
    context: int = 1024
    rope_theta: float = 10000.0
    eps: float = 1e-6

    asdict = asdict


class RMSNorm(nn.Module):
    def __init__(self, n, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), self.eps)


def rope_table(cfg, device=None):
    """Return cos and sin, [context, d_head], halves repeated (neox pairing)."""
    inv = 1.0 / cfg.rope_theta ** (torch.arange(0, cfg.d_head, 2, dtype=torch.float64) / cfg.d_head)
    angle = torch.outer(torch.arange(cfg.context, dtype=torch.float64), inv)
    angle = torch.cat([angle, angle], dim=-1)
    return angle.cos().float().to(device), angle.sin().float().to(device)


def rope(x, cos, sin):
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * cos + turned * sin


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.q_proj = nn.Linear(cfg.hidden, cfg.heads * cfg.d_head, bias=False)
        self.k_proj = nn.Linear(cfg.hidden, cfg.kv_heads * cfg.d_head, bias=False)
        self.v_proj = nn.Linear(cfg.hidden, cfg.kv_heads * cfg.d_head, bias=False)
        self.o_proj = nn.Linear(cfg.heads * cfg.d_head, cfg.hidden, bias=False)
        self.q_norm = RMSNorm(cfg.d_head, cfg.eps)
        self.k_norm = RMSNorm(cfg.d_head, cfg.eps)

    def forward(self, x, cos, sin, cache=None):
        b, t, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(b, t, -1, self.cfg.d_head)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(b, t, -1, self.cfg.d_head)).transpose(1, 2)
        v = self.v_proj(x).view(b, t, -1, self.cfg.d_head).transpose(1, 2)
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        if cache is not None:
            k, v = cache.extend(self, k, v)
        group = self.cfg.heads // self.cfg.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, -1))


class MLP(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.gate_proj = nn.Linear(cfg.hidden, cfg.ff, bias=False)
        self.up_proj = nn.Linear(cfg.hidden, cfg.ff, bias=False)
        self.down_proj = nn.Linear(cfg.ff, cfg.hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.self_attn = Attention(cfg)
        self.mlp = MLP(cfg)
        self.input_layernorm = RMSNorm(cfg.hidden, cfg.eps)
        self.post_attention_layernorm = RMSNorm(cfg.hidden, cfg.eps)

    def forward(self, x, cos, sin, cache=None):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed_tokens = nn.Embedding(cfg.vocab, cfg.hidden)
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.layers))
        self.norm = RMSNorm(cfg.hidden, cfg.eps)


class Model(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.model = Body(cfg)
        cos, sin = rope_table(cfg)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.init_weights()

    def init_weights(self):
        depth = (2 * self.cfg.layers) ** -0.5
        for name, p in self.named_parameters():
            if p.dim() == 2:
                scale = depth if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0
                nn.init.normal_(p, std=0.02 * scale if "embed" in name else scale * p.shape[1] ** -0.5)

    def forward(self, tokens, cache=None):
        """Compute logits [b, t, vocab] of tokens i64 [b, t]."""
        start = cache.length if cache is not None else 0
        x = self.model.embed_tokens(tokens)
        if torch.is_autocast_enabled(x.device.type):
            x = x.bfloat16()
        cos = self.cos[start:start + tokens.shape[1]].to(x.dtype)
        sin = self.sin[start:start + tokens.shape[1]].to(x.dtype)
        for layer in self.model.layers:
            x = layer(x, cos, sin, cache)
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight)

    def n_params(self):
        return sum(p.numel() for p in self.parameters())


class Cache:
    """Keys and values of one batch of prompts of equal length."""
    def __init__(self):
        self.kv = {}
        self.length = 0

    def extend(self, owner, k, v):
        if owner in self.kv:
            old_k, old_v = self.kv[owner]
            k, v = torch.cat([old_k, k], 2), torch.cat([old_v, v], 2)
        self.kv[owner] = (k, v)
        return k, v


@torch.no_grad()
def generate(model, prompt, max_tokens, stop, pick=lambda logits: int(logits.argmax())):
    """Return token ids that continue `prompt`, up to but not including a token of `stop`."""
    cache, out = Cache(), []
    feed = torch.tensor([prompt])
    for _ in range(min(max_tokens, model.cfg.context - len(prompt))):
        logits = model(feed, cache)[0, -1]
        cache.length += feed.shape[1]
        token = pick(logits)
        if token in stop:
            break
        out.append(token)
        feed = torch.tensor([[token]])
    return out
