"""What benchmarks share: data, timing, workers, and how kept tables are shown."""
