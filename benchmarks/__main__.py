"""Run every benchmark and print its tables: `python -m benchmarks`, from the repository's root."""

from benchmarks import imdb, imdb_gradient, training_step

for benchmark in (training_step, imdb_gradient, imdb):
    benchmark.main()
