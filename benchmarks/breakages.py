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
BREAKAGES = [  # what goes wrong, file, this text, becomes that, the tests that must fail
    ("error weighed the wrong way", AGREEMENT, "math.pow(skew, -alpha)", "math.pow(skew, alpha)", "estimators"),
    ("a collapse counts as certainty", AGREEMENT, "if not skew > 1e-5:", "if False:", "estimators"),
    ("smoothing starts from nothing", AETTA, "disagreement if self.start ==", "0.0 if self.start ==", "estimators"),
    ("the interval forgets the batch", "nn/functional.py", "/ len(agreement) ** 2", "/ len(agreement) ** 3", "estimators"),
    ("sampling never stops early", AETTA, "< self.tolerance", "< 0", "estimators"),
    ("kept activations are not scaled", DROPOUT, "scale = 1 / (1 - rate)", "scale = 1.0", "nn"),
    ("passes share statistics", "nn/norm.py", "if not training or len(input) != self.rows:", "if True:", "nn"),
    ("masks from one generator", DROPOUT, "self.rng.child(index, site)", "self.rng", "nn test_monitor.py"),
    ("a hook is left behind", DROPOUT, "            handle.remove()\n        if mode", "            pass\n        if mode", "nn"),
    ("norms stay switched", "nn/norm.py", "setattr(layer, name, value)\n\n\nclass", "pass\n\n\nclass", "nn"),
    ("masks keep the wrong share", "rng.py", "round(share * 2**16)", "round(share * 2**15)", "nn"),
    ("masks from global randomness", "rng.py", "generator=self.generator(mask.device)", "generator=None", "test_contracts.py"),
    ("descending climbs", "adapters/base.py", "loss.backward()", "(-loss).backward()", "adapters goldens"),
    ("the given model is adapted", "nn/weights.py", "copy.deepcopy(model).eval()", "model.eval()", "test_contracts.py"),
    ("a reset keeps the optimizer", "adapters/base.py", "if name not in self.keep_on_reset", 'if name != "optimizer"', "test_contracts.py"),
    ("an error is not rolled back", "state.py", "            thing._apply(state)\n        raise", "            pass\n        raise", "test_monitor.py test_state.py"),
    ("a checkpoint forgets the count", MONITOR, '("index", "classes",', '("classes",', "test_monitor.py"),
    ("estimators remember through a reset", MONITOR, "            estimator.forget()", "            pass", "test_monitor.py"),
    ("a recorder's error stops the loop", MONITOR, 'log.exception("recorder', 'raise; log.exception("recorder', "test_monitor.py"),
    ("damage to a file goes unnoticed", "state.py", 'if fingerprint(state) != header.get("fingerprint"):', "if False:", "test_state.py"),
    ("a state of another class is taken", "state.py", 'if state.get("class") != self._kind():', "if False:", "test_state.py"),
    ("pickles are opened", "models/load.py", "weights_only=True", "weights_only=False", "models"),
    ("resets without a margin", "recovery/estimate_drop.py", "after + self.margin < before", "after < before", "recovery"),
    ("a reset is claimed, not made", "recovery/base.py", "    adapter.reset()\n", "", "test_contracts.py"),
    ("broken pixels are served", "nn/functional.py", "if not (low == low and", "if False and not (low == low and", "nn test_monitor.py"),
    ("a wrong name is not answered", "registry.py", "raise UnknownName.of(kind, name, known)", "return object", "test_registry.py"),
]  # fmt: skip


def main() -> int:
    missed = 0
    for what, file, old, new, tests in BREAKAGES:
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
    print(f"{len(BREAKAGES) - missed} of {len(BREAKAGES)} breakages were caught")
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
