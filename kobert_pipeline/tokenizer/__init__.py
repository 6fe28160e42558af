"""Train the subword model on the morphemes and save the tokenizer that all later stages use."""
