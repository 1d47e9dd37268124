# SPDX-License-Identifier: Apache-2.0
"""Mistakes in measuring, in what is kept of it, and in pictures."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_MEASURE = ("test_bench", "test_benchmark")
_RESULTS = ("test_bench_results", "test_cli_performance")
_PLOT = ("test_plot",)
_CASES = ("test_plot_cases",)
_TUNED = ("test_tune",)

MUTANTS = (
    Mutant(
        "cases-tied-columns-are-two",
        "bench/plot/series.py",
        "== _count(rows, (name,)) == _count(rows, (other,)) for other",
        "== _count(rows, (name,)) < _count(rows, (other,)) for other",
        _CASES,
    ),
    Mutant(
        "panels-do-not-share-their-limits",
        "bench/plot/series.py",
        "series=series, ends=whole.span)",
        "series=series)",
        _CASES,
    ),
    Mutant(
        "cases-labels-may-be-lost",
        "bench/plot/series.py",
        'if len(columns) < 2 or _count(rows.rows, columns) < _count(rows.rows, (*columns, "label")):',
        "if len(columns) < 2:",
        _CASES,
    ),
    Mutant(
        "html-text-not-escaped",
        "_html.py",
        "return html.escape(str(value))",
        "return str(value)",
        ("test_html",),
    ),
    Mutant(
        "benchmark-wrong-one-is-the-fastest",
        "bench/table.py",
        "if record.success and record.mismatch is None and",
        "if record.success and",
        ("test_html",),
    ),
    Mutant(
        "benchmark-operands-not-used",
        "operator/benchmarking.py",
        "return [BenchmarkConfig(listed(operands), tuple(operands), dict(keywords))]",
        "return [BenchmarkConfig(listed(operands), tuple(operands[:1]), dict(keywords))]",
        ("test_benchmark",),
    ),
    Mutant(
        "measure-quartiles-of-a-sample",
        "bench/measure.py",
        'statistics.quantiles(samples, n=4, method="inclusive")',
        "statistics.quantiles(samples, n=4)",
        _MEASURE,
    ),
    Mutant(
        "measure-warm-up-counts-once",
        "bench/measure.py",
        "while done < n_warmup or (n_warmup and",
        "while done < min(n_warmup, 1) or (n_warmup and",
        _MEASURE,
    ),
    Mutant(
        "chain-calls-do-not-wait",
        "bench/chain.py",
        "arrays, _, live = jax.lax.optimization_barrier(state)",
        "arrays, _, live = state",
        _MEASURE,
    ),
    Mutant(
        "compare-nan-differs-from-nan",
        "bench/compare.py",
        "equal_nan=True)",
        "equal_nan=False)",
        _MEASURE,
    ),
    Mutant(
        "cold-kibibytes-are-bytes",
        "bench/measure.py",
        '_UNITS = {"": 1, "K": 1 << 10,',
        '_UNITS = {"": 1, "K": 1,',
        (*_MEASURE, "test_ceilings"),
    ),
    Mutant(
        "record-throughput-of-the-mean",
        "bench/record.py",
        "work / timing.median / 1e9",
        "work / found.mean / 1e9",
        (*_MEASURE, "test_bench_results"),
    ),
    Mutant(
        "tune-fastest-by-a-hair",
        "bench/tune.py",
        "if t is fastest or _seconds(t) <= equal)",
        "if t is fastest)",
        ("test_bench", "test_tune"),
    ),
    Mutant(
        "tuning-store-key-without-the-keywords",
        "bench/tuning_store.py",
        "self.versions, self.content, self.params)",
        'self.versions, self.content, "")',
        _TUNED,
    ),
    Mutant(
        "tuning-store-of-a-newer-format-are-overwritten",
        "bench/tuning_store.py",
        "if error.number > _FORMAT:",
        "if error.number > _FORMAT + 1:",
        _TUNED,
    ),
    Mutant(
        "tuning-store-written-without-a-lock",
        "bench/tuning_store.py",
        'with locked_file(folder / ".lock"):',
        "if True:",
        _TUNED,
    ),
    Mutant(
        "expression-only-the-first-comparison",
        "bench/expression.py",
        "return all(_COMPARISONS[type(op)](a, b) for",
        "return any(_COMPARISONS[type(op)](a, b) for",
        _RESULTS,
    ),
    Mutant(
        "files-half-a-table-is-read",
        "bench/files.py",
        'if data and not data.endswith(b"\\n"):',
        "if not data:",
        _RESULTS,
    ),
    Mutant(
        "regressions-within-the-spread",
        "bench/regressions.py",
        "if ratio > 1 + tolerance and low > old_high:",
        "if ratio > 1 + tolerance:",
        ("test_regressions", "test_cli_performance"),
    ),
    Mutant(
        "rows-keywords-of-data-hide-those-of-kernels",
        "bench/rows.py",
        "taken |= kernel",
        "taken |= set()",
        _RESULTS,
    ),
    Mutant(
        "table-wrong-results-may-be-best",
        "bench/table.py",
        'if not row["success"] or row["mismatch"] is not None or math.isnan(row["typical_ms"]):',
        'if not row["success"] or math.isnan(row["typical_ms"]):',
        _RESULTS,
    ),
    Mutant(
        "result-wrong-results-may-be-fastest",
        "bench/result.py",
        "if record.success and record.mismatch is None and not",
        "if record.success and not",
        _RESULTS,
    ),
    Mutant(
        "runs-slowest-wins",
        "bench/runs.py",
        "return max(order, key=lambda backend: won[backend]) if won else None",
        "return min(order, key=lambda backend: won[backend]) if won else None",
        _RESULTS,
    ),
    Mutant(
        "whole-replaces-a-link",
        "bench/whole_files.py",
        "place = os.path.realpath(path)",
        "place = os.path.abspath(path)",
        (*_RESULTS, "test_tune"),
    ),
    Mutant(
        "words-one-second-is-a-thousand-milliseconds",
        "bench/words.py",
        "if seconds >= unit[1])",
        "if seconds > unit[1])",
        (*_RESULTS, "test_plot", "test_tune"),
    ),
    Mutant(
        "bars-beside-their-tick",
        "bench/plot/bars.py",
        "return (i - (self.slots - 1) / 2) * self.width",
        "return (i - self.slots / 2) * self.width",
        _PLOT,
    ),
    Mutant(
        "quantity-speed-up-upside-down",
        "bench/plot/quantity.py",
        "return _over(base, value), _over(base, high), _over(base, low)",
        "return _over(base, value), _over(base, low), _over(base, high)",
        _PLOT,
    ),
    Mutant(
        "series-mean-instead-of-median",
        "bench/plot/series.py",
        "middle = statistics.median(point.y for point in there)",
        "middle = statistics.fmean(point.y for point in there)",
        _PLOT,
    ),
    Mutant(
        "labels-joined-once",
        "bench/plot/lines.py",
        "while len(clusters) > 1 and",
        "if len(clusters) > 1 and",
        _PLOT,
    ),
    Mutant(
        "roofline-without-a-roof",
        "bench/plot/roofline.py",
        "ys = [min(x * bandwidth, flops) for x in xs]",
        "ys = [x * bandwidth for x in xs]",
        _PLOT,
    ),
)
