"""Run every benchmark and print its tables: `python -m benchmarks`, from the repository's root."""

from benchmarks import (
    cost,
    csv_rows,
    device,
    distributed,
    flow,
    imdb,
    imdb_gradient,
    max_margin,
    step_size,
    training_step,
    yelp,
)

for benchmark in (
    training_step,
    imdb_gradient,
    cost,
    device,
    distributed,
    max_margin,
    flow,
    step_size,
    csv_rows,
    imdb,
    yelp,
):
    benchmark.main()
