"""BERT's objective (Devlin et al. 2019): masked language modelling, and next sentence prediction in documents whose
sentences have an order."""

from typing import ClassVar, Literal

from kobert_pipeline.pretrain.objective import MaskedPairObjective
from kobert_pipeline.pretrain.segments import PairTask


class MlmNsp(MaskedPairObjective):
    """MLM + NSP: label 0 where segment B follows A, 1 where it is from another document."""

    name: Literal["mlm_nsp"] = "mlm_nsp"

    pair_task: ClassVar[PairTask] = "next"
    pair_loss_name: ClassVar[str] = "nsp"
