"""Serve checkpoints over HTTP: FastAPI and uvicorn, with batches joined from the texts of all requests."""
