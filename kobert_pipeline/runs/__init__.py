"""A run's folder: which stages are run, skipped, resumed or refused, and the manifests that decide it.

This package knows no particular stage.
"""
