"""Fakes, a sample corpus, and suites that hold implementations to their protocols."""
