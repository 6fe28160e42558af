"""ALBERT's objective (Lan et al. 2020): masked language modelling, and the order of two consecutive segments of a
document."""

from typing import ClassVar, Literal

from kobert_pipeline.pretrain.objective import MaskedPairObjective
from kobert_pipeline.pretrain.segments import PairTask


class MlmSop(MaskedPairObjective):
    """MLM + SOP (sentence order prediction): label 0 where the segments are in order, 1 where they are swapped."""

    name: Literal["mlm_sop"] = "mlm_sop"

    pair_task: ClassVar[PairTask] = "order"
    pair_loss_name: ClassVar[str] = "sop"
