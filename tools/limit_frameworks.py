#!/usr/bin/env python3
"""What a framework does in a while, and the bits of its results: run by limit_figures.py, with a limit and without one.

Usage: limit_frameworks.py torch|cupy|jax SECONDS

Prints one line of JSON: {"rates": {kind: steps per second}, "bits": a hash of what 30 steps left} or {"missing": why}.
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
    return rates, digest.hexdigest()


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
    run = {"torch": run_torch, "cupy": run_cupy, "jax": run_jax}[sys.argv[1]]
    try:
        rates, bits = run(float(sys.argv[2]))
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    print(json.dumps({"rates": rates, "bits": bits}))


if __name__ == "__main__":
    main()
