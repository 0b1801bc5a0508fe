"""The report of a demo run: what was seen, with the numbers of this very run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from aetta.bench.demo.play import ADAPTED, RECOVERED, RUNS, SOURCE
from aetta.bench.demo.summary import WINDOW
from aetta.recorders.report import (
    Section,
    accuracy_chart,
    figures,
    histograms,
    legend,
    page,
    paragraphs,
    percent,
    strip,
    table,
)

__all__ = ["report"]

Row = Mapping[str, Any]
DIGITS = [str(digit) for digit in range(10)]


def report(
    summary: Mapping[str, Any], rows: Sequence[Row], pictures: Mapping[str, Tensor], true_shares: Sequence[float]
) -> str:
    """The page.

    summary: As `summarise` makes it.
    rows: Of all runs.
    pictures: A few images of each domain.
    true_shares: How often each class came, for the histograms.
    """
    runs = summary["runs"]
    return page(
        "A model adapts, fails, is noticed and repaired",
        [
            Section("In short", [_figures(summary), paragraphs(*_story(summary, rows))]),
            Section(
                "True and estimated accuracy, batch by batch",
                [legend(), *(_chart(name, rows, runs[name]) for name in RUNS)],
                lead="Each shaded stripe is a domain. The estimate, its interval and the repairs use no label.",
            ),
            Section("What the models answer", [_histograms(runs, true_shares)], lead=_histogram_lead(runs)),
            Section("The stream", [_domains(runs, pictures)], lead=_stream_lead(summary)),
            *_repairs(rows),
        ],
        lead="Real handwritten digits drift through one corruption after the other. Three copies of one network meet "
        "them: one stays as it was trained, one adapts to what it sees, one adapts and is watched by AETTA.",
        facts=_facts(summary),
    )


def _figures(summary: Mapping[str, Any]) -> str:
    runs, resets = summary["runs"], summary["resets"]
    return figures(
        [
            (SOURCE, percent(runs[SOURCE]["accuracy"]), "true accuracy"),
            (ADAPTED, percent(runs[ADAPTED]["accuracy"]), f"ends at {percent(runs[ADAPTED]['last'])}"),
            (RECOVERED, percent(runs[RECOVERED]["accuracy"]), f"ends at {percent(runs[RECOVERED]['last'])}"),
            ("error of the estimate", f"{100 * summary['estimate_mae']:.1f}", "points on average, in the watched run"),
            ("resets", str(resets), "decided without labels"),
        ]
    )


def _story(summary: Mapping[str, Any], rows: Sequence[Row]) -> list[str]:
    runs, setting = summary["runs"], summary["setting"]
    adapted, recovered = runs[ADAPTED], runs[RECOVERED]
    texts = [
        f"Adaptation (TENT, with a learning rate of {setting['learning_rate']:g}, which is too high) begins well: over "
        f"its best {WINDOW} batches it is right on {percent(adapted['best'])} of the images, where the network as it "
        f"was trained is right on {percent(runs[SOURCE]['accuracy'])} of the whole stream.",
        _end_of_adaptation(adapted),
    ]
    first = next((row for row in rows if row["run"] == RECOVERED and row["repair"]), None)
    if first is not None:
        texts.append(
            f"With recovery, {first['repair']['reason']} at batch {first['step'] + 1}, so the model was reset to what "
            f"it was trained as, and adapted anew; {summary['resets']} times in all. It is right on "
            f"{percent(recovered['accuracy'])} of the stream, and on {percent(recovered['last'])} of its last {WINDOW} "
            "batches."
        )
    texts.append(
        f"AETTA estimated the accuracy of every batch from the model's own predictions. In the watched run it was "
        f"{100 * summary['estimate_mae']:.1f} points off on average (each run: {_each(runs)}). Where a model has half "
        "collapsed it errs on the side of alarm: it says chance."
    )
    return texts


def _end_of_adaptation(adapted: Mapping[str, Any]) -> str:
    fall = 100 * (adapted["best"] - adapted["last"])
    if fall < 20:
        return f"This time it did not collapse: it ends {fall:.0f} points below its best."
    shares = adapted["predicted_last"]
    most = max(range(len(shares)), key=shares.__getitem__)
    return (
        f"Then it collapses, to {percent(adapted['last'])}, {fall:.0f} points below its own best: its last answers are "
        f"“{DIGITS[most]}” for {percent(shares[most])} of the images, whatever they show. An accuracy that nobody "
        "measures falls in silence; the estimate falls with it."
    )


def _each(runs: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {100 * runs[name]['mae']:.1f}" for name in RUNS)


def _chart(name: str, rows: Sequence[Row], run: Mapping[str, Any]) -> str:
    remark = f"true {percent(run['accuracy'])}, estimated {percent(run['estimated'])} on average"
    if run["resets"]:
        remark += f", {run['resets']} resets"
    return accuracy_chart(name.capitalize(), [row for row in rows if row["run"] == name], remark=remark)


def _histograms(runs: Mapping[str, Any], true_shares: Sequence[float]) -> str:
    adapted, recovered = runs[ADAPTED], runs[RECOVERED]
    return histograms(
        {
            f"Adaptation, first {WINDOW} batches": adapted["predicted_first"],
            f"Adaptation, last {WINDOW} batches": adapted["predicted_last"],
            f"With recovery, last {WINDOW} batches": recovered["predicted_last"],
        },
        expected=true_shares,
        names=DIGITS,
    )


def _histogram_lead(runs: Mapping[str, Any]) -> str:
    answered = sum(share > 0.02 for share in runs[ADAPTED]["predicted_last"])
    return (
        f"The share of each digit among the predictions; the dark tick is its true share. Adaptation alone ends with "
        f"{answered} of 10 digits still in use."
    )


def _domains(runs: Mapping[str, Any], pictures: Mapping[str, Tensor]) -> str:
    rows = [
        [
            name.replace("_", " "),
            strip(images, alt=f"{len(images)} digits under {name.replace('_', ' ')}"),
            *(percent(runs[run]["by_domain"][name]) for run in RUNS),
        ]
        for name, images in pictures.items()
    ]
    return table(["domain", "some of its images", *RUNS], rows, caption="True accuracy on each domain, all rounds.")


def _stream_lead(summary: Mapping[str, Any]) -> str:
    setting = summary["setting"]
    return (
        f"{len(setting['corruptions'])} corruptions of severity {setting['severity']}, {setting['rounds']} rounds of "
        f"{setting['batches']} batches each, {setting['batch_size']} images a batch, none of which the network was "
        "trained on."
    )


def _repairs(rows: Sequence[Row]) -> list[Section]:
    repaired = [
        [
            str(row["step"] + 1),
            (row["domain"] or "").replace("_", " "),
            row["repair"]["action"],
            row["repair"]["reason"],
        ]
        for row in rows
        if row["run"] == RECOVERED and row["repair"]
    ]
    if not repaired:
        return []
    return [Section("Every repair, and why", [table(["batch", "domain", "action", "reason"], repaired)])]


def _facts(summary: Mapping[str, Any]) -> str:
    return (
        f"aetta {summary['version']}, seed {summary['setting']['seed']}, {summary['seconds']:.0f} seconds. Digits: "
        "E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998. The same command with the "
        "same seed makes the same report."
    )
