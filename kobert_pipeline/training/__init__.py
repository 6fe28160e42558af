"""The training engine: one loop for pretraining and fine-tuning, which knows neither objectives nor tasks, only batches
and a module that returns a loss."""
