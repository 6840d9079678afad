"""Turns ring records other than steps into events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trimtab import ring

_NO_GPU = 2**32 - 1
RingEvent = tuple[str, dict[str, Any]]


def ring_event(kind: int, flags: int, fields: tuple[int, ...]) -> RingEvent | None:
    """Return the event's kind and data (`wire.Event`), or None for a record of no known kind."""
    read = _READERS.get(kind)
    return None if read is None else read(flags, *fields)


def _checkpoint(flags: int, duration_ns: int, size_bytes: int, *_: int) -> RingEvent:
    return "checkpoint", {"seconds": round(duration_ns / 1e9, 6), "bytes": _known(size_bytes)}


def _loader(flags: int, workers: int, batch_size: int, prefetch_factor: int, *_: int) -> RingEvent:
    return "loader", {
        "phase": "evaluate" if flags & ring.EVALUATES else "train",
        "workers": _known(workers),
        "batch_size": _known(batch_size),
        "prefetch_factor": _known(prefetch_factor),
        "pin_memory": bool(flags & ring.PIN_MEMORY),
        "persistent_workers": bool(flags & ring.PERSISTENT_WORKERS),
    }


def _precision(flags: int, amp: int, parameters: int, *_: int) -> RingEvent:
    return "precision", {
        "amp": ring.DTYPES[amp],
        "parameters": None if parameters < 0 else ring.DTYPES[parameters],
        "tf32": bool(flags & ring.TF32_MATMUL),
        "cudnn_tf32": bool(flags & ring.TF32_CUDNN),
    }


def _memory(flags: int, allocated: int, reserved: int, total: int, *_: int) -> RingEvent:
    return "gpu_memory", {
        "peak_allocated_bytes": allocated,
        "peak_reserved_bytes": reserved,
        "total_bytes": _known(total),
    }


def _rank(flags: int, local_rank: int, world_size: int, pid: int, *_: int) -> RingEvent:
    data = {"local_rank": local_rank, "world_size": world_size, "pid": pid}
    return "rank", data | ({"restarts": flags} if flags else {})


def _profile(flags: int, first_step: int, steps: int, size_bytes: int, *_: int) -> RingEvent:
    return "profile", {"first_step": first_step, "steps": steps, "bytes": size_bytes}


def _global_step(flags: int, step: int, *_: int) -> RingEvent:
    return "global_step", {"step": step}


def _restore(flags: int, duration_ns: int, size_bytes: int, step: int, *_: int) -> RingEvent:
    seconds = round(duration_ns / 1e9, 6)
    return "restore", {"seconds": seconds, "bytes": _known(size_bytes), "step": _known(step)}


def _compile(flags: int, duration_ns: int, count: int, *_: int) -> RingEvent:
    return "compile", {"seconds": round(duration_ns / 1e9, 6), "count": count}


def _checkpoint_file(flags: int, fingerprint: int, size_bytes: int, *_: int) -> RingEvent:
    data = {"fingerprint": f"{fingerprint:016x}", "bytes": _known(size_bytes)}
    return "checkpoint_loaded" if flags else "checkpoint_saved", data


def _ddp(flags: int, communication_ns: int, iteration: int, *_: int) -> RingEvent:
    seconds = round(communication_ns / 1e9, 6)
    return "ddp", {"communication_seconds": seconds, "iteration": iteration}


def _gpu_steps(flags: int, gpu_ns: int, steps: int, launch_ns: int, *_: int) -> RingEvent:
    data = {"gpu_seconds": round(gpu_ns / 1e9, 6), "launch_seconds": round(launch_ns / 1e9, 6)}
    return "gpu_steps", {"steps": steps, **data}


def _torch_memory(flags: int, allocated: int, reserved: int, failures: int, *_: int) -> RingEvent:
    return "torch_memory", {
        "allocated_bytes": allocated,
        "reserved_bytes": reserved,
        "retries": flags,
        "failures": failures,
    }


def _out_of_memory(flags: int, asked: int, free: int, total: int, *_: int) -> RingEvent:
    return "gpu_out_of_memory", {
        "gpu": None if flags == _NO_GPU else flags,
        "requested_bytes": asked,
        "free_bytes": _known(free),
        "total_bytes": _known(total),
    }


def _epoch_length(flags: int, samples: int, *_: int) -> RingEvent:
    return "epoch_length", {"samples": _known(samples)}


def _memory_format(flags: int, convolutions: int, channels_last: int, *_: int) -> RingEvent:
    return "memory_format", {"convolutions": convolutions, "channels_last": channels_last}


def _parameters(
    flags: int, total: int, trainable: int, optimised: int, embedding: int
) -> RingEvent:
    return "parameters", {
        "total": _known(total),
        "trainable": _known(trainable),
        "optimised": _known(optimised),
        "embedding": _known(embedding),
        "tied": None if total < 0 else bool(flags),
    }


def _flops(flags: int, forward: int, backward: int, recomputed: int, samples: int) -> RingEvent:
    return "flops", {
        "forward": forward,
        "backward": backward,
        "recomputed": recomputed,
        "samples": _known(samples),
        "tokens": _known((flags >> 1) - 1),
        "at_least": bool(flags & 1),
    }


def _known(value: int) -> int | None:
    return None if value < 0 else value


_READERS: dict[int, Callable[..., RingEvent]] = {
    ring.CHECKPOINT: _checkpoint,
    ring.LOADER: _loader,
    ring.PRECISION: _precision,
    ring.MEMORY: _memory,
    ring.RANK: _rank,
    ring.PROFILE: _profile,
    ring.GLOBAL_STEP: _global_step,
    ring.RESTORE: _restore,
    ring.COMPILE: _compile,
    ring.CHECKPOINT_FILE: _checkpoint_file,
    ring.DDP: _ddp,
    ring.GPU_STEPS: _gpu_steps,
    ring.TORCH_MEMORY: _torch_memory,
    ring.OUT_OF_MEMORY: _out_of_memory,
    ring.EPOCH_LENGTH: _epoch_length,
    ring.MEMORY_FORMAT: _memory_format,
    ring.PARAMETERS: _parameters,
    ring.FLOPS: _flops,
}
