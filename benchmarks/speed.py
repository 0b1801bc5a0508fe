"""How fast the estimate and the whole step are, as ratios measured in one run: `python -m benchmarks.speed [--json]`.

For each model and batch size, four things are timed in turns, so that a slow moment of the machine hits all of them:

    forward    one plain forward pass with batch statistics
    loop       the published way: one forward for the labels, then N more, dropout by `torch.nn.functional.dropout`
    ours       `Probe.dropout` and the estimate, as a monitor runs them
    floor      what the stacked pass would take if it did nothing but its convolutions and matrix products, at the rate
               of the plain forward: forward * (share before the first site + N * share behind it)

and on a GPU four more: the loop in the precision of ours (`same_loop`), the convolutions and matrix products of the stacked
pass alone, replayed (`convolutions`), its arithmetic at 790 TFLOP/s (`arithmetic`), and for how long ours keeps the
device busy (`device`);

and, for each adapter, the whole step: a monitor's serve and digest against the same step the published way, where the
memory methods look at one image at a time; and, for those, the arrival of a batch alone. With --json the last line is a
list of rows.
"""

from __future__ import annotations

import argparse
import copy
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from aetta import Aetta, Monitor, Probe, registry
from aetta.adapters import Adapter
from aetta.models.resnet import cifar_resnet18, cifar_resnet20, resnet50
from aetta.nn import ensemble, graphs, norm
from aetta.nn.dropout import default_rate
from aetta.nn.functional import logits_of
from aetta.nn.sites import default_sites
from aetta.rng import Rng

SAMPLES = 10
PEAK = 790e12  # operations of an H200 in a second, in bfloat16, that a large product of matrices reaches
WARM_UP = 5
Timed = dict[str, Callable[[], object]]


class SmallVit(nn.Module):
    """A vision transformer of 6 blocks, width 192, patches of 4: for 32-pixel images."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 192, 4, stride=4)
        block = [nn.TransformerEncoderLayer(192, 3, 768, 0.0, batch_first=True, norm_first=True) for _ in range(6)]
        self.blocks = nn.Sequential(*block)
        self.norm, self.head = nn.LayerNorm(192), nn.Linear(192, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.embed(images).flatten(2).transpose(1, 2))).mean(1))


MODELS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "resnet20": (cifar_resnet20, 32),
    "resnet18": (cifar_resnet18, 32),
    "resnet50": (resnet50, 224),
    "vit": (SmallVit, 32),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--models", nargs="*", default=["resnet18", "resnet50", "vit"], choices=MODELS)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16, 64, 256])
    parser.add_argument("--adapters", nargs="*", default=["tent", "eata", "sar", "cotta", "rotta", "sotta"])
    parser.add_argument("--step-model", default="resnet18", choices=MODELS, help="the model of the whole steps")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--dtype", default=None, choices=("bfloat16", "float16"), help="of the dropout passes")
    parser.add_argument("--statistics", default="batch", choices=("batch", "running"), help="of the batch norms")
    parser.add_argument("--compile", action="store_true", help="make ours faster as `Monitor.compile` does")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON on the last line")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    dtype = getattr(torch, options.dtype) if options.dtype else None
    rows = []
    for row in chain(estimates(options, dtype), steps(options, dtype), arrivals(options)):
        rows.append(row)
        numbers = "  ".join(f"{key} {value:.4g}" for key, value in row.items() if isinstance(value, float))
        print(
            f"{row['what']:9s} {row['model']:9s} batch {row['batch']:4d}  {row.get('adapter', ''):6s} {numbers}",
            flush=True,
        )
    if options.json:
        print(json.dumps(rows))


def estimates(options: argparse.Namespace, dtype: torch.dtype | None) -> Iterator[dict[str, Any]]:
    """One row a model and batch size: milliseconds, ratios, and the peak of memory."""
    for name in options.models:
        build, pixels = MODELS[name]
        model = build().eval().to(options.device)
        share = share_behind_first_site(model, pixels, options.device)
        for batch in options.batches:
            images = torch.rand(batch, 3, pixels, pixels, device=options.device)
            mine = copy.deepcopy(model)
            if options.compile:
                graphs.record(mine)
            statistics_of = norm.batch_statistics if options.statistics == "batch" else nullcontext
            with torch.no_grad(), statistics_of(model), statistics_of(mine):
                logits = model(images)
                timed: Timed = {
                    "forward": lambda model=model, images=images: model(images),
                    "loop": lambda model=model, images=images: published_estimate(model, images),
                    "passes": lambda model=mine, images=images, logits=logits: Probe(
                        model, images, logits, rng=Rng(0), dtype=dtype
                    ).dropout(SAMPLES, 0.4),
                    "ours": lambda model=mine, images=images, logits=logits: Aetta(samples=SAMPLES).observe(
                        Probe(model, images, logits, rng=Rng(0), dtype=dtype)
                    ),
                }
                if options.compile:
                    timed["replayed"] = lambda model=mine, images=images: graphs.forward(model, images)
                operations = 0
                if options.device == "cuda":
                    timed["same_loop"] = lambda model=model, images=images: in_precision(
                        dtype, published_estimate, model, images
                    )
                    timed["convolutions"], operations = convolutions(model, images, dtype)
                times = interleaved(timed, options.repeats, options.device)
                peak = memory_peak(timed["ours"], options.device)
            floor = times["forward"] * (1 - share + SAMPLES * share)
            more = {}
            if options.device == "cuda":
                more = {
                    "device_ms": 1e3 * on_device(timed["ours"]),
                    "arithmetic_ms": 1e3 * operations / PEAK,
                    "same_speedup": times["same_loop"] / times["ours"],
                    "over_convolutions": times["ours"] / times["convolutions"],
                    "over_arithmetic": times["ours"] / (operations / PEAK),
                }
            yield {
                "what": "estimate",
                "model": name,
                "batch": batch,
                **{f"{key}_ms": 1e3 * value for key, value in times.items()},
                "floor_ms": 1e3 * floor,
                "speedup": times["loop"] / times["ours"],
                "over_floor": times["ours"] / floor,
                "peak_mib": peak,
                **more,
            }


def steps(options: argparse.Namespace, dtype: torch.dtype | None) -> Iterator[dict[str, Any]]:
    """One row an adapter: the whole step, ours and the published way, at batch 64 (or the largest below it)."""
    build, pixels = MODELS[options.step_model]
    batch = max((b for b in options.batches if b <= 64), default=64)
    images = torch.rand(batch, 3, pixels, pixels, device=options.device)
    for name in options.adapters:
        if name not in registry.names("adapter"):
            continue
        model = build().eval().to(options.device)
        ours = Monitor(registry.create("adapter", name, model), Aetta(samples=SAMPLES), dtype=dtype)
        if options.compile:
            ours.compile()
        theirs: Adapter = registry.create("adapter", name, model)
        timed: Timed = {
            "ours": lambda ours=ours: ours(images),
            "loop": lambda theirs=theirs: published_step(theirs, images),
        }
        times = interleaved(timed, options.repeats, options.device)
        milliseconds = {f"{key}_ms": 1e3 * value for key, value in times.items()}
        if options.device == "cuda":
            milliseconds["device_ms"] = 1e3 * on_device(timed["ours"])
        row = {"what": "step", "model": options.step_model, "batch": batch, "adapter": name, **milliseconds}
        yield {**row, "speedup": times["loop"] / times["ours"]}


def arrivals(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One row a memory method: a batch is answered and offered to the memory, as one batch and image by image.

    As one batch also without the answer (`answered`), which has been given anyway.
    """
    build, pixels = MODELS[options.step_model]
    batch = max((b for b in options.batches if b <= 64), default=64)
    images = torch.rand(batch, 3, pixels, pixels, device=options.device)
    for name in options.adapters:
        adapter: Adapter = registry.create("adapter", name, build().eval().to(options.device))
        if "memory" not in adapter.STATE:
            continue
        logits = adapter.predict(images)
        timed: Timed = {
            "ours": lambda adapter=adapter: offer(adapter, images, adapter.predict(images)),
            "answered": lambda adapter=adapter, logits=logits: offer(adapter, images, logits),
            "loop": lambda adapter=adapter: one_by_one(adapter, images),
        }
        times = interleaved(timed, options.repeats, options.device)
        row = {"what": "arrival", "model": options.step_model, "batch": batch, "adapter": name}
        milliseconds = {f"{key}_ms": 1e3 * value for key, value in times.items()}
        yield {**row, **milliseconds, "speedup": times["loop"] / times["ours"]}


def offer(adapter: Adapter, images: Tensor, logits: Tensor) -> None:
    """Offer images to a method's memory."""
    adapter.memory.add(  # type: ignore[attr-defined]
        images, logits.argmax(1), logits.softmax(1).amax(1), classes=logits.shape[1]
    )


def one_by_one(adapter: Adapter, images: Tensor) -> None:
    """The published way: an answer to the batch, and another to each image for the memory."""
    adapter.predict(images)
    for image in images.split(1):
        offer(adapter, image, adapter.predict(image))


@torch.no_grad()
def published_estimate(model: nn.Module, images: Tensor) -> float:
    """AETTA the way it was released: the labels again, then one forward for each pass."""
    labels = logits_of(model(images)).argmax(1)
    rate = default_rate(logits_of(model(images[:2])).shape[1])
    runs = []
    with dropout_layers(model, rate):
        for _ in range(SAMPLES):
            runs.append(logits_of(model(images)).softmax(1))
    softmax = torch.stack(runs)
    disagreement = (softmax.argmax(2) != labels).float().mean()
    q = softmax.mean((0, 1))
    return float(disagreement * (-(q * torch.log(q + 1e-6)).sum() / torch.log(torch.tensor(float(len(q))))) ** -3)


def published_step(adapter: Adapter, images: Tensor) -> None:
    """Arrival (one image at a time for memory methods), prediction, estimate, adaptation."""
    if "memory" in adapter.STATE or "bank" in adapter.STATE:
        for image in images:
            adapter.predict(image.unsqueeze(0))
    with one_view_at_a_time():
        logits = adapter.predict(images)
        with torch.no_grad(), adapter.inference():
            published_estimate(adapter.predictor, images)
        adapter.adapt(images, logits)


def in_precision(dtype: torch.dtype | None, function: Callable[..., float], *given: Any) -> float:
    """What a function returns under autocast."""
    with torch.autocast("cuda", dtype=dtype, enabled=dtype is not None):
        return function(*given)


def convolutions(model: nn.Module, images: Tensor, dtype: torch.dtype | None) -> tuple[Callable[[], object], int]:
    """The convolutions and matrix products of the stacked pass alone, recorded; and how many operations they are."""
    met: list[tuple[nn.Module, torch.Size]] = []
    logits = model(images)
    layers = [module for module in model.modules() if isinstance(module, (nn.Conv2d, nn.Linear))]
    handles = [layer.register_forward_hook(lambda m, given, _out: met.append((m, given[0].shape))) for layer in layers]
    with FlopCounterMode(display=False) as counter:
        Probe(model, images, logits, rng=Rng(0), dtype=dtype).dropout(SAMPLES, 0.4)
    for handle in handles:
        handle.remove()
    wanted = dtype or images.dtype
    inputs = {shape: torch.rand(shape, device=images.device, dtype=wanted) for _, shape in met}
    for shape, value in inputs.items():
        if len(shape) == 4:
            inputs[shape] = value.contiguous(memory_format=torch.channels_last)
    own = {layer: copy.deepcopy(layer).to(wanted) for layer, _ in met}
    for layer in own.values():
        if isinstance(layer, nn.Conv2d):
            layer.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def run() -> Tensor:
        with graphs.thinned():
            return [own[layer](inputs[shape]) for layer, shape in met][-1]

    return graphs.Recorded(run, []), counter.get_total_flops()


@contextmanager
def one_view_at_a_time() -> Iterator[None]:
    """CoTTA's views as its authors predict them."""
    kept, ensemble.PIXELS = ensemble.PIXELS, 1
    try:
        yield
    finally:
        ensemble.PIXELS = kept


@contextmanager
def dropout_layers(model: nn.Module, rate: float) -> Iterator[None]:
    """Plain dropout behind each site, drawn from torch's global randomness, as the authors' forward does it."""
    handles = [
        model.get_submodule(site).register_forward_hook(lambda _m, _i, out: F.dropout(out, rate, training=True))
        for site in default_sites(model)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def share_behind_first_site(model: nn.Module, pixels: int, device: str) -> float:
    """The share of a forward pass's arithmetic that lies behind the first dropout site."""
    marks: list[int] = []
    image = torch.rand(1, 3, pixels, pixels, device=device)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        hook = lambda *_: marks.append(counter.get_total_flops())  # noqa: E731
        handle = model.get_submodule(default_sites(model)[0]).register_forward_hook(hook)
        model(image)
        handle.remove()
        total = counter.get_total_flops()
    return 1 - marks[0] / total


def interleaved(timed: Timed, repeats: int, device: str) -> dict[str, float]:
    """The median seconds of each, run in turns after a warm-up, in which passes are recorded where they are."""
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for turn in range(-WARM_UP if device == "cuda" else -1, repeats):
        for name, run in timed.items():
            synchronize(device)
            start = time.perf_counter()
            run()
            synchronize(device)
            if turn >= 0:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def on_device(run: Callable[[], object], repeats: int = 3) -> float:
    """The seconds that a GPU works for it; the rest of its time goes by outside, or between two kernels."""
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(repeats):
            run()
        synchronize("cuda")
    return sum(event.self_device_time_total for event in found.key_averages()) / 1e6 / repeats


def memory_peak(run: Callable[[], object], device: str) -> float:
    """The peak of memory in MiB: of the device, or of this process so far on a CPU."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        run()
        return torch.cuda.max_memory_allocated() / 2**20
    run()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main())
