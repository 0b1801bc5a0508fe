"""Break the code on purpose, one place at a time, and see a test fail: `python -m benchmarks.breakages`.

Each row replaces one piece of text in a copy of the source, runs the tests that ought to notice, and says whether they did.
The exit code is the number of breakages that nobody noticed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
AETTA, AGREEMENT = "estimators/aetta.py", "nn/agreement.py"
DROPOUT, MONITOR = "nn/dropout.py", "monitor.py"
SCORE, GUARD = "estimators/anchor_score.py", "recovery/anchor_guard.py"
BREAKAGES = [  # what goes wrong, file, this text, becomes that, the tests that must fail
    ("error weighed the wrong way", AGREEMENT, "math.pow(skew, -alpha)", "math.pow(skew, alpha)", "estimators"),
    ("a collapse counts as certainty", AGREEMENT, "if not skew > 1e-5:", "if False:", "estimators"),
    ("smoothing starts from nothing", AETTA, "disagreement if self.start ==", "0.0 if self.start ==", "estimators"),
    ("the interval forgets the batch", "nn/functional.py", "/ len(agreement) ** 2", "/ len(agreement) ** 3", "estimators"),
    ("sampling never stops early", AETTA, "< self.tolerance", "< 0", "estimators"),
    ("kept activations are not scaled", DROPOUT, "scale = 1 / (1 - rate)", "scale = 1.0", "nn"),
    ("passes share statistics", "nn/caught.py", "if not call.training or len(call.input)", "if True or len(call.input)", "nn"),
    ("masks from one generator", DROPOUT, "self.rng.child(index, site)", "self.rng", "nn test_monitor.py"),
    ("a hook is left behind", DROPOUT, "            handle.remove()\n        if mode", "            pass\n        if mode", "nn"),
    ("a replaced tensor goes unnoticed", "parts.py", "if self._held is None or not _same(values, self._held.values):", "if self._held is None:", "test_parts.py nn/test_graphs.py"),
    ("a replaced layer goes unnoticed", "parts.py", "if found is None or not found.holds():", "if found is None:", "test_parts.py nn/test_graphs.py"),
    ("a step puts back what an earlier one kept", "copies.py", "            torch._foreach_copy_(copies, originals)", "            pass", "test_state.py"),
    ("replays pass hooks by", "nn/graphs.py", "if hooked or now.modules", "if now.modules", "nn/test_graphs.py"),
    ("norms stay switched", "nn/norm.py", "            layer.update(old)", "            pass", "nn"),
    ("masks keep the wrong share", "rng.py", "round(share * 2**16)", "round(share * 2**15)", "nn"),
    ("masks from global randomness", "rng.py", "generator=self.generator(mask.device)", "generator=None", "test_contracts.py"),
    ("a rejected model stays healthy", SCORE, "max(0.0, 1 - gap / max(errors, 1e-6))", "1.0", "estimators/test_anchor_score.py"),
    ("a skewed model stays healthy", SCORE, "max(0.0, 1 - skewed / SKEWED)", "1.0", "estimators/test_anchor_score.py"),
    ("a dispute is the anchor's", SCORE, "right = judged + health * (lead", "right = judged + 0 * (lead", "estimators/test_anchor_score.py"),
    ("mixtures count for nothing", SCORE, "math.pow(found, self.mixtures)", "1.0", "estimators/test_anchor_score.py"),
    ("a collapsed model has a say", GUARD, "+ health * (adapted", "+ (adapted", "recovery/test_anchor_guard.py"),
    ("the anchor answers for ever", GUARD, "together = self.stand_in and lead", "together = self.together or lead", "recovery/test_anchor_guard.py"),
    ("descending climbs", "adapters/base.py", "loss.backward()", "(-loss).backward()", "adapters goldens"),
    ("the given model is adapted", "nn/weights.py", "copy.deepcopy(model).eval()", "model.eval()", "test_contracts.py"),
    ("a reset keeps the optimizer", "adapters/base.py", "if name not in self.keep_on_reset", 'if name != "optimizer"', "test_contracts.py"),
    ("an error is not rolled back", "state.py", "            thing._apply(state)\n        raise", "            pass\n        raise", "test_monitor.py test_state.py"),
    ("a checkpoint forgets the count", MONITOR, '("index", "classes",', '("classes",', "test_monitor.py"),
    ("estimators remember through a reset", MONITOR, "            estimator.forget()", "            pass", "test_monitor.py"),
    ("a recorder's error stops the loop", MONITOR, 'log.exception("recorder', 'raise; log.exception("recorder', "test_monitor.py"),
    ("damage to a file goes unnoticed", "state.py", "    if not whole:", "    if False:", "test_state.py"),
    ("a state of another class is taken", "state.py", 'if state.get("class") != self._kind():', "if False:", "test_state.py"),
    ("a state of other estimators is taken", "state.py", 'raise CheckpointError(f"this state is of', 'str(f"this state is of', "test_monitor.py"),
    ("odd images end in torch's words", MONITOR, "why = misfit(images", "why = None and misfit(images", "test_monitor.py"),
    ("pickles are opened", "models/load.py", "weights_only=True", "weights_only=False", "models"),
    ("resets without a margin", "recovery/estimate_drop.py", "> self.margin + TIE", "> TIE", "recovery"),
    ("a reset is claimed, not made", "recovery/base.py", "    adapter.reset()\n", "", "test_contracts.py"),
    ("broken pixels are served", "nn/functional.py", "if not (low == low and", "if False and not (low == low and", "nn test_monitor.py"),
    ("a wrong name is not answered", "registry.py", "raise UnknownName.of(kind, name, known)", "return object", "test_registry.py"),
    ("TENT adds nothing to probabilities", "adapters/tent.py", ", self.floor)", ")", "goldens/test_tent.py"),
    ("EATA keeps more of its average", "adapters/eata.py", "0.9 * self.average + 0.1 * new", "0.8 * self.average + 0.2 * new", "goldens/test_eata.py"),
    ("EATA ignores decay", "adapters/eata.py", "weight_decay=weight_decay)", "weight_decay=0.0)", "goldens/test_eata.py"),
    ("EATA takes the average into account too early", "adapters/eata.py", "sure if self.average is None else sure &", "sure &", "adapters/test_eata.py goldens/test_eata.py"),
    ("Fisher information of the model as it is", "nn/fisher.py", "functional_call(model, self.source, (images.to(device),))", "model(images)", "adapters/test_eata.py"),
    ("Fisher information summed", "nn/fisher.py", "square / max(1, self.batches)", "square", "goldens/test_eata.py"),
    ("half a penalty", "nn/fisher.py", ".square()).sum() for distance", ".square()).sum() / 2 for distance", "goldens/test_eata.py"),
    ("SAM looks too far", "adapters/sar.py", "rho: float = 0.05", "rho: float = 0.5", "goldens/test_sar.py"),
    ("SAM stays uphill", "nn/sam.py", "torch._foreach_copy_(moved, before)", "pass", "nn/test_sam.py"),
    ("SAR asks the first filter only", "adapters/sar.py", "graphs.forward(self.model, images), sure)", "graphs.forward(self.model, images))", "goldens/test_sar.py"),
    ("SAR forgets its average when it resets", "adapters/sar.py", 'if name != "loss_average"])', "])", "goldens/test_sar.py"),
    ("SoTTA takes its statistics once", "adapters/sotta.py", "            loss = self._backward(self._loss(", "            self.momentum = 0.0; loss = self._backward(self._loss(", "goldens/test_sotta.py"),
    ("SoTTA trains the last stage", "adapters/sotta.py", "skip=norm.LAST_LAYERS", "skip=()", "goldens/test_sotta.py"),
    ("SoTTA turns the threshold away", "nn/memory.py", "if score < (default", "if score <= (default", "goldens/test_memory.py nn/test_memory.py"),
    ("HUS draws another class", "nn/memory.py", "label if label in largest else self.rng", "self.rng", "goldens/test_memory.py"),
    ("CSTU drops the first of equals", "nn/memory.py", "(costs[place], place)", "(costs[place], -place)", "goldens/test_memory.py nn/test_memory.py"),
    ("CSTU replaces equals", "nn/memory.py", "if costs[worst] <= self", "if costs[worst] < self", "goldens/test_memory.py nn/test_memory.py"),
    ("rejected images age nothing", "nn/memory.py", "            self.ages = [", "                self.ages = [", "goldens/test_memory.py nn/test_memory.py"),
    ("the guard asks an anchor of its own", GUARD, "if not followed:", "if True:", "recovery/test_anchor_guard.py"),
    ("an anchor's look outlives a reset", "nn/anchor.py", " or last.known is not self.moments", "", "recovery/test_anchor_guard.py"),
    ("an anchor's look outlives its images", "nn/anchor.py", "(last.version, last.remembered) != (_version(images), remembered)", "last.remembered != remembered", "recovery/test_anchor_guard.py"),
    ("weights lent in place void a waiting gradient", "nn/weights.py", "[here[name].data for", "[here[name] for", "nn/test_graphs.py"),
    ("the multi-process service is left running", "bench/mps.py", '_control(said="quit\\n")', "pass", "bench/test_mps.py"),
    ("the images of SrcValid are not told", "bench/table.py", 'found.get("validation", AS_THEY_ARE)', "AS_THEY_ARE", "bench/test_table.py"),
    ("RobustBN takes the unbiased variance", "nn/caught.py", "axes, correction=0)\n        return mean", "axes, correction=1)\n        return mean", "nn/test_caught.py"),
    ("RobustBN normalises as before the batch", "nn/caught.py", "scale = (variance + call.eps)", "scale = (call.running_var.clone() + call.eps)", "goldens/test_rotta.py nn/test_caught.py"),
    ("RoTTA prefers old images", "adapters/rotta.py", "torch.sigmoid(-ages", "torch.sigmoid(ages", "goldens/test_rotta.py"),
    ("RoTTA's teacher looks at views", "adapters/rotta.py", "graphs.forward(self.teacher, images)", "graphs.forward(self.teacher, views)", "goldens/test_rotta.py"),
    ("RoTTA's teacher stands still", "adapters/rotta.py", "ema_(self.teacher, self.model, self.keep)", "pass", "goldens/test_rotta.py adapters/test_rotta.py"),
    ("CoTTA without Nesterov", "adapters/cotta.py", "nesterov=True", "nesterov=False", "goldens/test_cotta.py"),
    ("CoTTA's teacher follows what returned", "adapters/cotta.py", "            ema_(self.teacher, self.model, KEEP)\n            self._return_some(self.rng.child(\"restore\", self.count))\n", "            self._return_some(self.rng.child(\"restore\", self.count))\n            ema_(self.teacher, self.model, KEEP)\n", "adapters/test_cotta.py"),
    ("CoTTA's views share statistics", "nn/ensemble.py", "with grouped(len(views), len(views) * len(images)):", "if True:", "adapters/test_cotta.py"),
    ("CoTTA always takes views", "adapters/cotta.py", "if not float(confidence(source).mean()) < threshold:", "if False:", "adapters/test_cotta.py"),
    ("views are the same at every batch", "adapters/cotta.py", 'child("predict", self.count)', 'child("predict")', "adapters/test_cotta.py"),
    ("a view is blurred on one axis", "nn/augment.py", "for axis in (2, 3):", "for axis in (3, 3):", "nn/test_augment.py"),
    ("casts outlive a step", "adapters/base.py", "torch.set_autocast_cache_enabled(False)", "pass", "adapters/test_any_model.py"),
]  # fmt: skip


def main() -> int:
    """All of them, or those whose file or name holds one of the arguments."""
    missed, wanted = 0, sys.argv[1:] or [""]
    chosen = [row for row in BREAKAGES if any(word in f"{row[0]} {row[1]}" for word in wanted)]
    for what, file, old, new, tests in chosen:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "project"
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", "*.egg-info"))
            source = copy / "src" / "aetta" / file
            text = source.read_text(encoding="utf-8")
            if old not in text:
                print(f"STALE   {what}: {file} no longer holds {old!r}", flush=True)
                missed += 1
                continue
            source.write_text(text.replace(old, new, 1), encoding="utf-8")
            caught = _caught(copy, [f"tests/{test}" for test in tests.split() if (copy / "tests" / test).exists()])
            missed += not caught
            print(f"{'caught' if caught else 'MISSED'}  {what}: {caught}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} breakages were caught")
    return missed


def _caught(copy: Path, tests: list[str]) -> str:
    """The first test that failed, or nothing."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1"}
    environment.setdefault("AETTA_SHARED", str(ROOT.parent / "shared"))
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0] if done.returncode == 1 and failed else ""


if __name__ == "__main__":
    sys.exit(main())
