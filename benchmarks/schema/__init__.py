"""Results in the schema `oka.bench/1`: rows, files of them, and published ones of others."""
