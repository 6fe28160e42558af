"""Distributed training outside the steps: which rank this process has, and how rank 0 tells the other ranks what to
run.

Messages go through the store of `torch.distributed` in which the ranks of `torchrun` or `accelerate launch` find each
other. They do not go through a collective, because collectives time out, and rank 0 may have to verify hundreds of
gigabytes before it knows what comes next.
"""

import json
import os
import signal
import threading
import time
from datetime import timedelta
from functools import cache
from multiprocessing import parent_process
from typing import TYPE_CHECKING, Any

from kobert_pipeline.errors import UserError

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]  # public, but not in an __all__

DISTRIBUTED_COMMANDS = ("pretrain", "finetune")
"""The commands that may be started as several ranks."""
LAUNCHER_SHARDING = {
    "ACCELERATE_USE_FSDP": "FSDP",
    "ACCELERATE_USE_DEEPSPEED": "DeepSpeed",
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM",
}
"""Ways of `accelerate launch` to shard a model, by the environment variable that asks for them."""
NEXT_MESSAGE_TIMEOUT = timedelta(days=30)
ACKNOWLEDGE_TIMEOUT = timedelta(seconds=5)
"""How long rank 0, about to exit, waits until the other ranks have read that; ranks that wait for it in a step cannot
read."""
RELEASE_SECONDS = 0.2
"""Time for gloo's threads to let go of the last tensors."""


class MainProcessExited(Exception):
    """Rank 0 exited early with `exit_code`. The other ranks exit with it too and print nothing, since rank 0 has said
    why."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"rank 0 exited with exit code {exit_code}")
        self.exit_code = exit_code


def is_distributed() -> bool:
    """Whether this process is one of several ranks, started by `torchrun` or `accelerate launch`."""
    return int(os.environ.get("WORLD_SIZE") or 1) > 1


def is_main_process() -> bool:
    """Whether this process writes files: it is alone, or rank 0."""
    return not is_distributed() or os.environ.get("RANK", "0") == "0"


def refuse_unsupported_launch(command: str | None) -> None:
    """Raise UserError for a launch that is not supported: several ranks for a command that does not train, or a model
    sharded by the launcher (our checkpoints and evaluations only know plan.fsdp)."""
    if is_distributed() and command not in DISTRIBUTED_COMMANDS:
        raise UserError(
            f"kobert {command} was started as {os.environ['WORLD_SIZE']} ranks, but only kobert pretrain and kobert "
            "finetune train on "
            f"several; prepare with kobert run RECIPE --until features in one process first"
        )
    for variable, name in LAUNCHER_SHARDING.items():
        if os.environ.get(variable, "").lower() == "true":
            raise UserError(
                f"{name} is asked for ({variable}), but kobert does not shard models in the launcher's way; start it "
                "by torchrun, or by "
                f"accelerate launch without {name}, and where memory is short add --set pretrain.plan.fsdp=true, or "
                "raise "
                f"plan.gradient_accumulation_steps"
            )


class Channel:
    """Numbered messages from rank 0, which every other rank receives once and in order. The last may be rank 0's exit
    code."""

    def __init__(self, store: "Store") -> None:
        self.store, self.number = store, 0

    def send(self, message: dict[str, Any]) -> None:
        """On rank 0: send the next message."""
        self.store.set(f"message {self.number}", json.dumps(message))
        self.number += 1

    def receive(self, timeout: timedelta = NEXT_MESSAGE_TIMEOUT) -> dict[str, Any]:
        """On the other ranks: wait for the next message. Raises MainProcessExited where rank 0 exits instead of sending
        one."""
        key = f"message {self.number}"
        self.store.wait([key], timeout)
        self.number += 1
        message: dict[str, Any] = json.loads(self.store.get(key))
        if "exit_code" in message:
            ignore_launcher()
            self.store.set(f"acknowledged by {os.environ['RANK']}", "")
            destroy_process_group(message["exit_code"])
            raise MainProcessExited(message["exit_code"])
        return message

    def exit(self, exit_code: int) -> None:
        """On rank 0: tell the other ranks that it exits before all is done, and wait until they know."""
        from torch.distributed import DistStoreError

        ignore_launcher()
        self.send({"exit_code": exit_code})
        destroy_process_group(exit_code)
        others = [f"acknowledged by {rank}" for rank in range(1, int(os.environ["WORLD_SIZE"]))]
        try:
            self.store.wait(others, ACKNOWLEDGE_TIMEOUT)
        except DistStoreError:
            pass  # they wait for this rank in a step; that fails as soon as this process has ended

    def exit_code_of_main(self, timeout: timedelta) -> int | None:
        """On the other ranks: rank 0's exit code, if it exits before all is done within `timeout`."""
        from torch.distributed import DistStoreError

        try:
            while True:  # messages that this rank had not read yet come first
                self.receive(timeout)
        except MainProcessExited as exited:
            return exited.exit_code
        except DistStoreError:
            return None


def ignore_launcher() -> None:
    """Ignore the launcher's SIGTERM, which it sends to every rank as soon as one has ended: this one exits by itself,
    with its own code."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@cache
def channel() -> Channel:
    """The channel of this process, over the store that the launcher's environment names."""
    from torch.distributed import PrefixStore, rendezvous  # type: ignore[attr-defined]

    store, _, _ = next(iter(rendezvous("env://")))
    return Channel(PrefixStore("kobert", store))


def destroy_process_group(exit_code: int = 0) -> None:
    """Leave the process group, or gloo's threads may abort this process as it exits. Not after an error of ours (exit
    code 1): nobody knows what that left in the group, and leaving could wait for ever."""
    import torch

    if torch.distributed.is_initialized() and exit_code != 1:
        torch.distributed.destroy_process_group()
        time.sleep(
            RELEASE_SECONDS
        )  # torch's caches keep a sharded model's device mesh, and with it the group and its threads


def start_worker() -> None:
    """What every worker process does first: leave Ctrl-C, which reaches all processes of a terminal, to the process in
    charge, and end when that one does, even by SIGKILL."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := parent_process():
        parent.join()
        os._exit(1)
