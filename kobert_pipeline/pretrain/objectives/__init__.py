"""One file per pretraining objective."""
