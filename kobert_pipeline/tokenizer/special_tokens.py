"""The special tokens, with the same ids in every vocabulary."""

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = [PAD, UNK, CLS, SEP, MASK]
PAD_ID, UNK_ID, CLS_ID, SEP_ID, MASK_ID = range(5)
