"""The special tokens, with the same ids in every vocabulary of this package, and the label of tokens that are not
predicted."""

from typing import NamedTuple

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = [PAD, UNK, CLS, SEP, MASK]
# in the order of SPECIAL_TOKENS, which every trainer gives the first ids
PAD_ID, UNK_ID, CLS_ID, SEP_ID, MASK_ID = range(5)


class SpecialIds(NamedTuple):
    """The ids of a vocabulary's special tokens: the ones that pretraining adds to texts, and in `every` all of them,
    ascending, which never replace a masked token at random."""

    pad: int
    cls: int
    sep: int
    mask: int
    every: tuple[int, ...]


OUR_IDS = SpecialIds(PAD_ID, CLS_ID, SEP_ID, MASK_ID, tuple(range(len(SPECIAL_TOKENS))))
"""The ids of the special tokens in every vocabulary that this package trains."""
IGNORE_INDEX = -100
"""The label that losses ignore, as in PyTorch and HF."""
