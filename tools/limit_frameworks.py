#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a framework does in a while, and the bits of its results: run by limit_figures.py, with a limit and without one.

Usage: limit_frameworks.py torch|cupy|jax|nccl SECONDS

Prints one line of JSON: {"rates": {kind: steps per second}, "bits": a hash of what 30 steps left} or {"missing": why}.
torch has "ms_at_duty", too: what a step takes where the device rests between two.  nccl is two processes with a device each.
Each kind keeps the device busy nearly all of the time when it has it alone.
"""
import hashlib
import json
import os
import sys
import time

STEPS, CHUNK = 30, 10  # a chunk of steps is waited for


def rate_of(step, wait, seconds):
    """Steps per second, from one wait to another; a second to warm up."""
    def go(least):
        begun, done = time.monotonic(), 0
        while time.monotonic() - begun < least:
            for _ in range(CHUNK):
                step()
            wait()
            done += CHUNK
        return done / (time.monotonic() - begun)
    go(1.0)
    return go(seconds)


def run_torch(seconds):
    import torch
    torch.manual_seed(1)
    device = torch.device("cuda")

    def make(width, dtype):
        layers = [torch.nn.Linear(width, width, device=device, dtype=dtype) for _ in range(4)]
        model = torch.nn.Sequential(*[part for layer in layers for part in (layer, torch.nn.ReLU())])
        return model, torch.optim.SGD(model.parameters(), lr=1e-3)

    def stepper(model, optimizer, data):
        def step():
            optimizer.zero_grad(set_to_none=False)
            loss = model(data).float().square().mean()
            loss.backward()
            optimizer.step()
        return step

    small, optimizer = make(512, torch.float32)
    step = stepper(small, optimizer, torch.randn(256, 512, device=device))
    for _ in range(STEPS):
        step()
    digest = hashlib.sha256()
    for parameter in small.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    big, optimizer = make(4096, torch.bfloat16)
    step = stepper(big, optimizer, torch.randn(8192, 4096, device=device, dtype=torch.bfloat16))
    rates = {"eager": rate_of(step, torch.cuda.synchronize, seconds)}
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    rates["CUDA graph"] = rate_of(graph.replay, torch.cuda.synchronize, seconds)
    if "libgantry-limit" in os.environ.get("LD_PRELOAD", ""):
        return rates, digest.hexdigest()
    return rates, digest.hexdigest(), {"ms_at_duty": {percent: at_duty(torch, graph.replay, percent) for percent in (100, 50, 30)}}


def at_duty(torch, step, percent):
    """The median of what a step takes on a device that works so much of the time and rests in between."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    taken = []
    for _ in range(100):
        begin.record()
        step()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end))
        time.sleep(taken[-1] / 1000 * (100 / percent - 1))
    return sorted(taken[20:])[40]


def nccl_rank(rank, seconds, port, rates):
    """Data-parallel: each rank has all layers and adds up gradients.  Tensor-parallel: each has a half of each layer."""
    import torch
    import torch.distributed as distributed
    torch.manual_seed(1)
    torch.cuda.set_device(rank)
    distributed.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    device = torch.device("cuda", rank)
    data = torch.randn(4096, 4096, device=device, dtype=torch.bfloat16)
    layers = [torch.nn.Linear(4096, 4096, device=device, dtype=torch.bfloat16) for _ in range(4)]
    halves = [torch.randn(4096, 2048, device=device, dtype=torch.bfloat16) * 0.01 for _ in range(8)]

    def data_parallel():
        x = data
        for layer in layers:
            layer.zero_grad(set_to_none=False)
            x = torch.relu(layer(x))
        x.float().square().mean().backward()
        works = [distributed.all_reduce(p.grad, async_op=True) for layer in layers for p in layer.parameters()]
        for work in works:
            work.wait()

    def tensor_parallel():
        x = data
        for half in halves:
            x = (x @ half) @ half.T
            distributed.all_reduce(x)

    def ended(step):
        """As rate_of(), but both ranks do the same number of steps, which the first one's clock decides."""
        more, done = torch.ones(1, device=device), 0
        begun = None
        start = time.monotonic()
        while more.item() != 0:
            for _ in range(CHUNK):
                step()
            torch.cuda.synchronize()
            now = time.monotonic()
            done += CHUNK
            if begun is None and now - start > 1.0:
                begun, done = now, 0
            more.fill_(1.0 if begun is None or now - begun < seconds else 0.0)
            distributed.broadcast(more, 0)
        return done / (time.monotonic() - begun)

    for name, step in (("data-parallel", data_parallel), ("tensor-parallel", tensor_parallel)):
        rate = ended(step)
        if rank == 0:
            rates[name] = rate
    distributed.destroy_process_group()


def run_nccl(seconds):
    import torch
    import torch.multiprocessing as processes
    if torch.cuda.device_count() < 2:
        raise ImportError("there are not two devices")
    with processes.Manager() as manager:
        rates = manager.dict()
        processes.spawn(nccl_rank, args=(seconds, 20000 + os.getpid() % 20000, rates), nprocs=2)
        return dict(rates), ""


def run_cupy(seconds):
    import cupy
    data = cupy.random.RandomState(1).standard_normal((4096, 4096), dtype=cupy.float32)
    state = data.copy()

    def step():
        nonlocal state
        state = cupy.tanh(state @ data * 0.01)

    for _ in range(STEPS):
        step()
    bits = hashlib.sha256(cupy.asnumpy(state).tobytes()).hexdigest()
    return {"products": rate_of(step, cupy.cuda.Device().synchronize, seconds)}, bits


def run_jax(seconds):
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp
    data = jax.random.normal(jax.random.PRNGKey(1), (4096, 4096), dtype=jnp.float32)
    state = data

    @jax.jit
    def advance(x):
        for _ in range(4):
            x = jnp.tanh(x @ data * 0.01)
        return x

    def step():
        nonlocal state
        state = advance(state)

    for _ in range(STEPS):
        step()
    import numpy
    bits = hashlib.sha256(numpy.asarray(state).tobytes()).hexdigest()
    return {"jit": rate_of(step, lambda: state.block_until_ready(), seconds)}, bits


def main():
    run = {"torch": run_torch, "cupy": run_cupy, "jax": run_jax, "nccl": run_nccl}[sys.argv[1]]
    try:
        rates, bits, *more = run(float(sys.argv[2]))
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    print(json.dumps({"rates": rates, "bits": bits, **(more[0] if more else {})}))


if __name__ == "__main__":
    main()
