"""Small models for the scripts of tests: text that a training's Python executes."""

from __future__ import annotations

MODELS = '''
import os, sys, time, torch
from torch import nn
from torch.nn import functional as F
torch.set_num_threads(1)
torch.manual_seed(0)

def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

class Block(nn.Module):
    def __init__(self, width, mlp_width, heads, attention):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, mlp_width), nn.Linear(mlp_width, width)
        self.heads, self.attention = heads, attention
    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            each.view(batch, length, self.heads, -1).transpose(1, 2)
            for each in self.qkv(self.norm_1(x)).split(width, dim=2)
        )
        if self.attention == "sdpa":
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
            mask = torch.ones(length, length, dtype=torch.bool).tril()
            seen = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))

class Gpt(nn.Module):
    """Vocabulary 64, 32 places, width 24, two blocks, tied weights."""
    def __init__(self, attention="sdpa", checkpoints=None):
        super().__init__()
        self.tokens, self.places = nn.Embedding(64, 24), nn.Embedding(32, 24)
        self.blocks = nn.ModuleList(Block(24, 96, 3, attention) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(24), nn.Linear(24, 64, bias=False)
        self.head.weight = self.tokens.weight
        self.checkpoints = checkpoints
    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            if self.checkpoints is None:
                x = block(x)
            else:
                from torch.utils.checkpoint import checkpoint
                x = checkpoint(block, x, use_reentrant=self.checkpoints)
        return self.head(self.norm(x))
'''
