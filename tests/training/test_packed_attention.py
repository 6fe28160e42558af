"""Packed attention equals padded attention, and no packed sequence sees another."""

from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig, BertModel

from kobert_pipeline.training.attention import LENGTH_MULTIPLE, SequenceLayout, _attend, packed_attention

VOCAB_SIZE = 50


def bert(attention: str) -> BertModel:
    """The same weights whatever the attention."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCAB_SIZE, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=80,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = BertModel(config)
    model.set_attn_implementation(attention)
    return model


def texts(lengths: list[int], seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(5, VOCAB_SIZE, (length,), generator=generator) for length in lengths]


def forward_packed(model: BertModel, sequences: list[torch.Tensor]) -> list[torch.Tensor]:
    """The hidden states (L, H) of each sequence."""
    lengths = [len(sequence) for sequence in sequences]
    hidden = model(
        input_ids=torch.cat(sequences)[None],
        position_ids=torch.cat([torch.arange(length) for length in lengths])[None],
        packing=SequenceLayout.of(np.array(lengths)),
    ).last_hidden_state[0]
    return list(hidden.split(lengths))


def forward_padded(model: BertModel, sequences: list[torch.Tensor]) -> list[torch.Tensor]:
    """The same with HF's own attention."""
    ids = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(sequence) for sequence in sequences], batch_first=True)
    hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
    return [row[: len(sequence)] for row, sequence in zip(hidden, sequences, strict=True)]


LENGTHS = [
    [1],
    [70],
    [LENGTH_MULTIPLE] * 3,
    [1, 70, 16, 17, 15, 1],
    np.random.default_rng(0).integers(1, 71, 12).tolist(),
    list(range(1, 20)),
]


def test_outputs_and_gradients_equal_padded_attention() -> None:
    for lengths, attention in product(LENGTHS, ["sdpa", "eager"]):
        packed, padded, sequences = bert("packed"), bert(attention), texts(lengths)
        ours, theirs = forward_packed(packed, sequences), forward_padded(padded, sequences)
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
        weights = torch.randn(sum(lengths), 32, generator=torch.Generator().manual_seed(1)) / len(lengths)
        for hidden in (ours, theirs):
            (torch.cat(hidden) * weights).sum().backward()
        for (name, one), other in zip(packed.named_parameters(), padded.parameters(), strict=True):
            if other.grad is not None:
                torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5, msg=name)


def test_in_bf16_outputs_and_gradients_are_as_close_to_fp32_as_padded_attention() -> None:
    """bf16 keeps eight bits, so the yardstick is how far padded attention itself is off."""
    for lengths in LENGTHS:
        exact, packed, padded, sequences = bert("sdpa"), bert("packed"), bert("sdpa"), texts(lengths)
        outputs = [forward_padded(exact, sequences)]
        with torch.autocast("cpu", torch.bfloat16):
            outputs += [forward_packed(packed, sequences), forward_padded(padded, sequences)]
        for hidden in outputs:
            torch.cat(hidden).float().square().sum().backward()
        weights = [
            torch.cat([p.grad.flatten() for name, p in model.named_parameters() if "pooler" not in name])
            for model in (exact, packed, padded)
        ]
        for true, ours, theirs in ([torch.cat(hidden) for hidden in outputs], weights):
            assert (ours - true).norm() <= 2 * (theirs - true).norm() + 1e-6
            assert (ours - true).norm() < 0.05 * true.norm()


def test_in_bf16_a_narrow_window_gives_no_nan() -> None:
    """The shorter sequence has padding cells from where the window reaches none of its tokens."""
    layout = SequenceLayout.of(np.array([LENGTH_MULTIPLE, 1]))
    generator = torch.Generator().manual_seed(0)
    exact = torch.randn(3, 1, 2, LENGTH_MULTIPLE + 1, 8, generator=generator)
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        states = exact.detach().to(dtype, copy=True).requires_grad_()
        attended, _ = packed_attention(torch.nn.Identity(), *states, None, layout, sliding_window=3)
        attended.square().sum().backward()
        found.append((attended.float(), states.grad.float()))
    torch.testing.assert_close(found[1], found[0], rtol=0.05, atol=0.05)


def test_no_sequence_sees_another() -> None:
    for changed, precision in product(range(6), [torch.float32, torch.bfloat16]):
        model, sequences = bert("packed").eval().to(precision), texts([5, 30, 33, 16, 5, 70])
        with torch.no_grad():
            before = forward_packed(model, sequences)
            sequences[changed] = texts([len(sequences[changed])], seed=9)[0]
            after = forward_packed(model, sequences)
        for i, (one, other) in enumerate(zip(before, after, strict=True)):
            if i == changed:
                assert (one - other).abs().max() > 1e-3, (precision, changed)
            else:
                assert torch.equal(one, other), (precision, changed)


def test_no_gradient_flows_between_sequences() -> None:
    model, sequences = bert("packed"), texts([7, 20, 7])
    embedded: list[torch.Tensor] = []
    model.embeddings.register_forward_hook(
        lambda module, inputs, output: (output.retain_grad(), embedded.append(output))[0]
    )
    forward_packed(model, sequences)[1].square().sum().backward()
    flows = embedded[0].grad[0].abs().sum(-1).split([7, 20, 7])
    assert [bool(flow.any()) for flow in flows] == [False, True, False]


def one_gather_each(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """Packed attention with a gather for every rectangle instead of one for all."""
    layout, attended = SequenceLayout.of(np.array(lengths)), []
    states = torch.cat([query, key, value]).permute(2, 0, 1, 3)  # 3 x (1, H, T, W) -> (T, 3, H, W)
    indexes = layout.index.split([rows * longest for rows, longest, _ in layout.rectangles])
    for index, (rows, longest, mask) in zip(indexes, layout.rectangles, strict=True):
        cells = states.index_select(0, index).view(rows, longest, 3, *states.shape[2:])
        q, k, v = cells.permute(2, 0, 3, 1, 4).unbind(0)
        out = _attend(q, k, v, mask, 0.0, states.shape[3] ** -0.5)
        attended.append(out.transpose(1, 2).flatten(0, 1))
    return torch.cat(attended).index_select(0, layout.inverse)[None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_one_gather_for_all_rectangles_equals_one_for_each_bit_by_bit(lengths: list[int], dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    *exact, weights = torch.randn(4, 1, 2, sum(lengths), 8, generator=generator).to(dtype)
    results = []
    for way in (
        lambda *states: packed_attention(torch.nn.Identity(), *states, None, SequenceLayout.of(np.array(lengths)))[0],
        partial(one_gather_each, lengths=lengths),
    ):
        states = [part.detach().clone().requires_grad_() for part in exact]
        attended = way(*states)
        attended.backward(weights.transpose(1, 2))
        results.append([attended.detach(), *(part.grad for part in states)])
    for ours, theirs in zip(*results, strict=True):
        assert torch.equal(ours, theirs)


@given(st.lists(st.integers(1, 70), min_size=1, max_size=40))
def test_the_layout_holds_every_position_once_next_to_those_of_its_own_sequence(lengths: list[int]) -> None:
    packing, total = SequenceLayout.of(np.array(lengths)), sum(lengths)
    sequence_of = np.repeat(np.arange(len(lengths)), lengths)
    cells, real, rows = packing.index.tolist(), [], []
    indexes = packing.index.split([count * width for count, width, _ in packing.rectangles])
    for index, (count, width, mask) in zip(indexes, packing.rectangles, strict=True):
        assert (
            width - min(length for length in lengths if -(-length // LENGTH_MULTIPLE) == -(-width // LENGTH_MULTIPLE))
            < LENGTH_MULTIPLE
        )
        real += (torch.ones(count, 1, 1, width, dtype=bool) if mask is None else mask).flatten().tolist()
        rows += index.view(count, width).tolist()
    assert [cells[place] for place in packing.inverse.tolist()] == list(range(total))
    assert sorted(packing.inverse.tolist()) == np.flatnonzero(real).tolist()
    assert all(len(set(sequence_of[row].tolist())) == 1 for row in rows)
