"""The whole campaign on the CPU with the bundled corpora and a tiny model: the very commands of the real one, the
training in processes that cannot import what the training machine lacks."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from packs import INDEX, Refused
from slices import REPO, STOPPED

LACKING = (
    "kiwipiepy",
    "kiwipiepy_model",
    "datatrove",
    "datasets",
    "pyarrow",
    "pebble",
    "zstandard",
    "ftfy",
    "mwparserfromhell",
)
"""What the training machine lacks. The real one may have some of these; training must do without all."""
TINY = [
    "tokenizer.subword.vocab_size=1500",
    "corpus.part_characters=30000",
    "pretrain.architecture={name: bert, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 2, "
    "max_position_embeddings: 256}",
    "pretrain.total_tokens=120000",
    "pretrain.phases=[{share: 0.4, batch_tokens: 2048}, {share: 0.6, batch_tokens: 4096}]",
    "pretrain.plan.log_every=1",
    "pretrain.plan.dataloader_num_workers=2",
    "pretrain.plan.checkpoint_minutes=0.05",
    "finetune.nsmc.seeds=[1, 2]",
    "finetune.nsmc.plan.epochs=1",
    "finetune.nsmc.plan.checkpoint_every=5",
    "finetune.korquad.plan.epochs=1",
]
"""Settings over the quickstart: the shape of the real campaign, phases and seeds, at a thousandth of its size."""
MOST_SLICES = 20


def rehearse(work: Path) -> int:
    """0 when a report came out at the end. Raises Refused where a step did not do what it should."""
    if work.exists() and any(work.iterdir()):
        raise Refused(f"{work} is not empty; a rehearsal begins from nothing")
    here, there = work / "here", work / "there"
    settings = [word for setting in TINY for word in ("--set", setting)]
    # packs of 150 kB: several, as in the real campaign; wheels would be fetched from the network
    prepared = ["--recipe", "quickstart", "--pack-mib", "0.15", "--wheels-for", "none", *settings]
    call("prepare", REPO / "corpora", here, *prepared)
    loads = sorted((here / "packs").glob("*.tar"))
    for number, pack in enumerate(loads):
        load = work / f"load-{number}"
        load.mkdir()
        for path in (here / "packs" / INDEX, pack):
            shutil.copy(path, load)
        if 0 < number < 2:
            call("train", there, work / "out", expected=2)  # what is not all there is not trained on
        call("unpack", load, there)
    lacking = without(work / "lacking")
    # the first slice stops itself after a step; the others run until they are done, or out of their time
    call(
        "train",
        there,
        work / "out",
        "--minutes",
        1,
        "--margin",
        5,
        "--set",
        "pretrain.plan.max_minutes=0.0001",
        expected=STOPPED,
        env=lacking,
    )
    for _ in range(MOST_SLICES):
        if call("train", there, work / "out", "--minutes", 0.5, "--margin", 5, expected=(0, STOPPED), env=lacking) == 0:
            break
    else:
        raise Refused(
            f"{MOST_SLICES} slices of half a minute were not enough for a rehearsal; this machine is too busy for one"
        )
    call("collect", work / "out", work / "results", "--name", "rehearsal")
    print(f"rehearsed in {work}: {', '.join(sorted(path.name for path in (work / 'results').iterdir()))}")
    return 0


def call(*words: object, expected: int | tuple[int, ...] = 0, env: dict[str, str] | None = None) -> int:
    """One command of the campaign, as a person would give it."""
    line = [str(word) for word in words]
    print(f"$ scripts/gpu_campaign {' '.join(line[:3])} ...", flush=True)
    surroundings = (env or dict(os.environ)) | {"OMP_NUM_THREADS": "1"}
    code = subprocess.run(
        [sys.executable, str(REPO / "scripts" / "gpu_campaign"), *line], check=False, env=surroundings
    ).returncode
    if code not in (expected if isinstance(expected, tuple) else (expected,)):
        raise Refused(f"`{line[0]}` ended with {code}, not {expected}; see above")
    return code


def without(folder: Path) -> dict[str, str]:
    """An environment whose Python processes cannot import `LACKING`."""
    folder.mkdir()
    code = f"import sys\nfor name in {LACKING!r}:\n    sys.modules[name] = None  # as if it were not installed\n"
    (folder / "sitecustomize.py").write_text(code, encoding="utf-8")
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}
