"""Run every benchmark and print its tables: `python -m benchmarks`, from the repository's root."""

from benchmarks import flow, imdb, imdb_gradient, max_margin, step_size, training_step

for benchmark in (training_step, imdb_gradient, max_margin, flow, step_size, imdb):
    benchmark.main()
