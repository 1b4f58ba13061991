#!/usr/bin/env python3
"""The GPT of examples/gpt as a plain PyTorch program, to measure beside it: torch_gpt.py --help.

GPT-2's blocks (pre-norm, tanh GELU, head tied to the embedding, biases), random tokens, AdamW and clipping in every step.
At its best settings: fused attention and fused AdamW where the version has them, no copies of tokens. Ranks are started by
mpirun (or one process): more than one train by DistributedDataParallel, over gloo on a CPU and nccl on GPUs, and meet in
the file of --meet. With --micro M a step adds up the gradients of M parts of its batch. Rank 0 prints each step's seconds to
--times, and in its last line `N tok/s`, all ranks together, median of the steps after the first --skip; before it, on a GPU,
the most memory it had allocated.
"""
import argparse
import contextlib
import os
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = (p.view(n, t, self.heads, d // self.heads).transpose(1, 2) for p in self.qkv(x).split(d, dim=2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
            scores = (q @ k.transpose(2, 3)) * (d // self.heads) ** -0.5
            y = F.softmax(scores.masked_fill(future, float("-inf")), dim=3) @ v
        return self.out(y.transpose(1, 2).reshape(n, t, d))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, blocks, width, heads, length, vocabulary):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        for p in self.parameters():
            if p.ndim > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.t()
        return F.cross_entropy(logits.view(-1, logits.shape[2]).float(), targets.reshape(-1))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in dict(blocks=6, width=384, heads=6, length=256, vocabulary=8192, batch=4, micro=1, steps=10, skip=2, threads=0).items():
        a.add_argument(f"--{name}", type=int, default=default)
    a.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    a.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    a.add_argument("--compile", action="store_true", help="torch.compile")
    a.add_argument("--meet", help="file in which the ranks meet")
    a.add_argument("--times", help="file of seconds per step")
    o = a.parse_args()
    rank, size = int(os.environ.get("OMPI_COMM_WORLD_RANK", 0)), int(os.environ.get("OMPI_COMM_WORLD_SIZE", 1))
    if o.threads:
        torch.set_num_threads(o.threads)
    if o.device == "cuda":
        torch.cuda.set_device(int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", 0)))
    torch.manual_seed(1)
    model = GPT(o.blocks, o.width, o.heads, o.length, o.vocabulary).to(o.device)
    trained = model_ddp = model
    if size > 1:
        torch.distributed.init_process_group(
            "nccl" if o.device == "cuda" else "gloo", init_method="file://" + os.path.abspath(o.meet), rank=rank, world_size=size)
        trained = model_ddp = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if o.compile:
        trained = torch.compile(trained)
    try:
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=True)
    except (TypeError, RuntimeError):
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    text = torch.randint(o.vocabulary, (o.steps, o.batch, o.length + 1), device=o.device)
    seconds = []
    for step in range(o.steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        parts = text[step].chunk(o.micro)
        for k, part in enumerate(parts):
            later = size > 1 and k + 1 < len(parts)         # gradients are reduced with the last micro-batch
            with model_ddp.no_sync() if later else contextlib.nullcontext():
                with torch.autocast(o.device, dtype=torch.bfloat16, enabled=o.bf16):
                    loss = trained(part[:, :-1], part[:, 1:])
                (loss / len(parts)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - start)
    if rank == 0:
        if o.times:
            with open(o.times, "a") as f:
                f.writelines(f"{s}\n" for s in seconds[o.skip:])
        if o.device == "cuda":
            print(f"held {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")
        print(f"loss {loss.item():.4f}, {size * o.batch * o.length / statistics.median(seconds[o.skip:]):.1f} tok/s")
    if size > 1:
        torch.distributed.destroy_process_group()


main()
