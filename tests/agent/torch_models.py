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

class Bottleneck(nn.Module):
    def __init__(self, inner, width, outer, stride):
        super().__init__()
        def layer(source, target, size, by=1):
            conv = nn.Conv2d(source, target, size, by, size // 2, bias=False)
            return nn.Sequential(conv, nn.BatchNorm2d(target))
        self.parts = nn.ModuleList(
            [layer(inner, width, 1), layer(width, width, 3, stride), layer(width, outer, 1)])
        self.aside = layer(inner, outer, 1, stride) if inner != outer else nn.Identity()
    def forward(self, x):
        first, second, third = self.parts
        return F.relu(self.aside(x) + third(F.relu(second(F.relu(first(x))))))

def resnet(depths, base, classes):
    """ResNet-50 with depths 3, 4, 6, 3, base 64 and 1,000 classes."""
    inner = base
    blocks = [nn.Conv2d(3, base, 7, 2, 3, bias=False), nn.BatchNorm2d(base), nn.ReLU(),
              nn.MaxPool2d(3, 2, 1)]
    for stage, depth in enumerate(depths):
        width = base << stage
        for number in range(depth):
            stride = 2 if stage and not number else 1
            blocks.append(Bottleneck(inner, width, 4 * width, stride))
            inner = 4 * width
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, classes))

def run_all(cases):
    """Run each case in a process of its own, with the rank that is its number."""
    import atexit, torch._dynamo
    import torch.utils.flop_counter
    for number, case in enumerate(cases):
        child = os.fork()
        if not child:
            os.environ.update(RANK=str(number), WORLD_SIZE=str(len(cases)))
            failed = 1
            try:
                torch.manual_seed(0)
                case()
                failed = 0
            except BaseException:
                import traceback
                traceback.print_exc()
            sys.stdout.flush()
            atexit._run_exitfuncs()
            os._exit(failed)
        if os.waitpid(child, 0)[1]:
            raise SystemExit(f"{case.__name__} failed")
'''
