"""Benchmarks in their official file formats: items, questions with located gold, and splits."""
