"""Questions by rules: made from the texts of a corpus, and what rules know of the answer to a question, without any
weights."""

MADE = "synthetic-"
"""Beginning of the ids of questions that were made."""
