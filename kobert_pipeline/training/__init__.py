"""The engine: one loop for pretraining and fine-tuning. It knows no objective and no task, only batches and a module
with a loss."""
