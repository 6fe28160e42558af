"""The special tokens, with the same ids in every vocabulary."""

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = [PAD, UNK, CLS, SEP, MASK]
PAD_ID, UNK_ID, CLS_ID, SEP_ID, MASK_ID = range(5)


def unused_tokens(count: int) -> list[str]:
    """`[unused0]`, ...: slots after the special tokens, to which a user can give a meaning later."""
    return [f"[unused{number}]" for number in range(count)]
