"""Write config, weights and tokenizer of a model into one folder that `transformers`, and `sentence-transformers` for a
pretrained encoder, can load."""

import json
import shutil
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from kobert_pipeline.files import read_json, write_json
from kobert_pipeline.finetune.inference_state import added_tokens, inference_length, trained_pooling
from kobert_pipeline.publish.licences import LICENSE_FILE
from kobert_pipeline.tokenizer.loading import add_tokens, is_morpheme_tokenizer, load_tokenizer
from kobert_pipeline.tokenizer.plain import PLAIN
from kobert_pipeline.training.weight_files import NGRAMS_FOLDER, WEIGHTS

SENTENCE_TRANSFORMERS_MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]
"""Under the class names that every version of sentence-transformers since 2.0 accepts."""
POOLING_MODES = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens"}
"""{pooling: its name in the options `pooling_mode_...` of sentence-transformers}"""
CODE_LICENCE = """The Python files in this folder are part of kobert-pipeline and licensed under the Apache License 2.0.
README.md names the licence of the weights."""
APACHE = "https://www.apache.org/licenses/LICENSE-2.0"
TOKENIZER_CLASS = "PreTrainedTokenizerFast"
"""The class of `plain/` by the name that `transformers` 4, and so optimum, knows too; version 5 writes
`TokenizersBackend`."""
OTHER_MODES = ("mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
"""The other pooling modes of sentence-transformers, which are not used here."""


def export(model: Path, tokenizer: Path, out: Path, dtype: str = "float32", plain_is_own: bool = False) -> None:
    """Write config, weights in `dtype`, tokenizer and the tokenizer's code to `out`, and to `out/plain` the tokenizer
    that needs no analyzer. With `plain_is_own` that is the folder's own, and the other one is in a folder named after
    its analyzer."""
    config = read_json(model / "config.json")
    loaded = add_tokens(load_tokenizer(tokenizer), added_tokens(config))
    names = inputs_of(config, loaded.model_input_names)
    if names != loaded.model_input_names:
        # loaded again, since `save_pretrained` writes the names only if they were an argument
        loaded = add_tokens(load_tokenizer(tokenizer, model_input_names=names), added_tokens(config))
    # truncate where fine-tuning did, so that `transformers` reads as much of a text as `kobert predict`
    loaded.model_max_length = inference_length(config)
    tokenizer_folder = out / loaded.segmenter.analyzer if plain_is_own else out
    loaded.save_pretrained(tokenizer_folder)
    if is_morpheme_tokenizer(loaded):
        (tokenizer_folder / LICENSE_FILE).write_text(code_licence(), encoding="utf-8")
    if (tokenizer / PLAIN).is_dir():
        export_plain(config, tokenizer / PLAIN, out if plain_is_own else out / PLAIN)
    # its config still says float32, in which `transformers` then loads and computes weights of any type
    write_config(out / "config.json", with_older_keys(config))
    if dtype == "bfloat16":
        write_in_bfloat16(model / WEIGHTS, out / WEIGHTS)
        # safetensors lets nobody but the owner read a file, and a server may run as another user
        shutil.copymode(out / "config.json", out / WEIGHTS)
    else:
        shutil.copyfile(model / WEIGHTS, out / WEIGHTS)
    export_ngrams(model, out)


def export_ngrams(model: Path, out: Path) -> None:
    """Copy the classifier over n-grams that is a part of the model, if any."""
    if (model / NGRAMS_FOLDER).is_dir():
        (out / NGRAMS_FOLDER).mkdir()
        for path in (model / NGRAMS_FOLDER).iterdir():
            shutil.copyfile(path, out / NGRAMS_FOLDER / path.name)  # readable for others, unlike what safetensors wrote


def write_config(path: Path, config: dict[str, Any]) -> None:
    """Write config.json as `transformers` does."""
    path.write_text(json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def with_older_keys(config: dict[str, Any]) -> dict[str, Any]:
    """The config with keys that `transformers` 5 does not write any more and others still read: transformers 4 and
    text-embeddings-inference. They repeat what other keys say."""
    older: dict[str, Any] = {"num_labels": len(config["id2label"])} if "id2label" in config else {}
    if config.get("model_type") == "modernbert":
        kinds, rope = config["layer_types"], config["rope_parameters"]
        older["layer_norm_eps"] = config["norm_eps"]
        older["global_rope_theta"] = rope["full_attention"]["rope_theta"]
        older["local_rope_theta"] = rope["sliding_attention"]["rope_theta"]
        # the first layer is always a global one
        # the appended one counts where no later layer is global
        older["global_attn_every_n_layers"] = (*kinds[1:], "full_attention").index("full_attention") + 1
    return config | {key: value for key, value in older.items() if key not in config}


def code_licence() -> str:
    """The licence of the tokenizer's code, which is copied into its folder with it."""
    # none in a clone on PYTHONPATH; a clone that is the working directory has records of its own, without licences
    texts = (package.read_text(f"licenses/{LICENSE_FILE}") for package in distributions(name="kobert-pipeline"))
    return f"{CODE_LICENCE}\n\n{next(filter(None, texts), APACHE)}"


def inputs_of(config: dict[str, Any], names: Sequence[str]) -> list[str]:
    """What a tokenizer gives the model with this config, of the inputs `names`."""
    # a model without segments does not accept `token_type_ids`, and GPT-2 looks them up among its words; a user would
    # pass on whatever the tokenizer gives
    return [name for name in names if name != "token_type_ids" or segments(config) > 1]


def segments(config: dict[str, Any]) -> int:
    """The number of segments (`token_type_ids`) that the model distinguishes."""
    return int(config.get("type_vocab_size", 1))


def write_in_bfloat16(weights: Path, out: Path) -> None:
    """Write the tensors of a safetensors file with every float32 rounded to bfloat16."""
    import torch
    from safetensors.torch import load_file, save_file

    tensors = load_file(weights)
    rounded = {name: value.bfloat16() if value.dtype == torch.float32 else value for name, value in tensors.items()}
    save_file(rounded, out, metadata={"format": "pt"})  # transformers 4 refuses a file without the note


def export_plain(model_config: dict[str, Any], tokenizer: Path, out: Path) -> None:
    """Write the tokenizer that needs no analyzer to `out`, for a model with this config."""
    config = read_json(tokenizer / "tokenizer_config.json")
    config["model_max_length"] = inference_length(model_config)
    config["model_input_names"] = inputs_of(model_config, config["model_input_names"])
    config["tokenizer_class"] = TOKENIZER_CLASS
    out.mkdir(exist_ok=True)
    backend = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    # with the flags of `add_tokens`, so that both tokenizers find these tokens in the same texts
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in added_tokens(model_config)])
    backend.save(str(out / "tokenizer.json"))
    write_json(out / "tokenizer_config.json", config)


def write_sentence_transformers_files(out: Path) -> None:
    """Write the files by which `sentence-transformers` loads the exported encoder in `out`: a text's vector is the mean
    of its last hidden states, padding excluded, or what the encoder was trained with."""
    config = read_json(out / "config.json")
    pooling, width = trained_pooling(config), config.get("hidden_size", config.get("n_embd"))  # GPT-2's name
    # all of them, because text-embeddings-inference does not know the defaults of sentence-transformers
    used = POOLING_MODES.get(pooling)
    modes = {f"pooling_mode_{mode}": mode == used for mode in (*POOLING_MODES.values(), *OTHER_MODES)}
    max_length = read_json(out / "tokenizer_config.json")["model_max_length"]
    (out / "1_Pooling").mkdir(exist_ok=True)
    files: dict[str, Any] = {
        "modules.json": SENTENCE_TRANSFORMERS_MODULES,
        "1_Pooling/config.json": {"word_embedding_dimension": width, **modes},
        "config_sentence_transformers.json": {
            "prompts": {},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        "sentence_bert_config.json": {"max_seq_length": max_length, "do_lower_case": False},
    }
    for name, content in files.items():
        write_json(out / name, content)
