"""One file per analyzer."""
