"""Fine-tuning data sets as arrays: read, split, cleaned of test texts and tokenized. Later stages need no analyzer."""
