"""What a published checkpoint is for."""
