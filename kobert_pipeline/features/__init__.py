"""Fine-tuning sets as arrays: read, split, kept clean of their test set, tokenized. What comes after needs no
analyzer."""
