"""A run's folder: which stages are run, skipped, resumed or refused, and the manifests that decide it. Knows no
stage."""
