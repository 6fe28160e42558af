"""The stage checkpoint: an existing model, from a folder or the Hub, instead of pretraining."""
