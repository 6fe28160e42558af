"""Train the subword model on the morphemes and save the tokenizer that everything after uses."""
