"""The attention of fine-tuning in bf16 on a CPU equals that of `transformers`, for every model type that has it."""

from typing import Any

import pytest
import torch
import transformers

from kobert_pipeline.finetune.model import PADDED_ATTENTION
from kobert_pipeline.training import attention
from kobert_pipeline.training.attention import use_attention

SIZES = {
    "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 64,
    "max_position_embeddings": 64, "embedding_size": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "cls_token_id": 1, "sep_token_id": 2, "local_attention": 8,
    "attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "attention_dropout": 0.0,
}  # fmt: skip
LENGTHS = (40, 33, 7, 1)


def hidden_and_gradients(model: Any, implementation: str, in_bf16: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """The hidden states of all real tokens, and the gradients of all weights."""
    use_attention(model, implementation)
    ids = torch.randint(3, 60, (len(LENGTHS), 40), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(40) < torch.tensor(LENGTHS)[:, None]).long()
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=in_bf16):
        hidden = model(input_ids=ids * mask, attention_mask=mask).last_hidden_state[mask.bool()].float()
    directions = torch.randn(hidden.shape, generator=torch.Generator().manual_seed(2))
    (hidden * directions).sum().backward()
    gradients = [weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]
    return hidden.detach(), torch.cat(gradients)


@pytest.mark.parametrize("model_type", [*PADDED_ATTENTION, "roformer"])
def test_outputs_and_gradients_equal_those_of_transformers(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(model_type, **SIZES)).train()
    exact = hidden_and_gradients(model, "eager")
    for found, expected in zip(hidden_and_gradients(model, "padded"), exact, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    calls = []
    attend = attention._attend
    monkeypatch.setattr(attention, "_attend", lambda *given: calls.append(given[0].dtype) or attend(*given))
    ours = hidden_and_gradients(model, "padded", in_bf16=True)
    theirs = hidden_and_gradients(model.eval(), "eager", in_bf16=True)  # in training RoFormer has no other than ours
    assert calls == [torch.bfloat16] * 3
    # bf16 keeps eight bits, so the yardstick is how far their attention itself is off
    for found, other, true in zip(ours, theirs, exact, strict=True):
        assert (found - true).norm() <= 1.5 * (other - true).norm()
        assert (found - true).norm() < 0.05 * true.norm()
