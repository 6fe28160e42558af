"""The special tokens, with the same ids in every vocabulary, and the label of tokens that are not predicted."""

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = [PAD, UNK, CLS, SEP, MASK]
# in the order of SPECIAL_TOKENS, which every trainer gives the first ids
PAD_ID, UNK_ID, CLS_ID, SEP_ID, MASK_ID = range(5)
IGNORE_INDEX = -100
"""The label that losses ignore, as in PyTorch and HF."""


def unused_tokens(count: int) -> list[str]:
    """`[unused0]`, ...: slots after the special tokens, to which a user can give a meaning later."""
    return [f"[unused{number}]" for number in range(count)]
