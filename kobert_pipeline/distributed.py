"""Distributed training outside the training steps: the rank of this process, and messages from rank 0 to other ranks.

Messages go through the store of `torch.distributed` in which the ranks of `torchrun` or `accelerate launch` find each
other. Collectives would time out, since rank 0 may have to verify hundreds of gigabytes before it knows what to run.
"""

import json
import os
import signal
import threading
import time
from contextlib import suppress
from datetime import timedelta
from functools import cache
from multiprocessing import parent_process
from typing import TYPE_CHECKING, Any

from kobert_pipeline.errors import UserError

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]  # public, but not in an __all__

DISTRIBUTED_COMMANDS = ("pretrain", "finetune")
"""The commands that support several ranks."""
LAUNCHER_SHARDING = {
    "ACCELERATE_USE_FSDP": "FSDP",
    "ACCELERATE_USE_DEEPSPEED": "DeepSpeed",
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM",
}
"""Sharding methods of `accelerate launch`, by the environment variable that turns them on."""
NEXT_MESSAGE_TIMEOUT = timedelta(days=20)  # the store counts milliseconds in 32 bits
ACKNOWLEDGE_TIMEOUT = timedelta(seconds=5)
"""How long rank 0 waits before it exits until the other ranks know; a rank that waits in a collective cannot answer."""
RELEASE_SECONDS = 0.2
"""Time for gloo's threads to release the last tensors."""


class MainProcessExited(Exception):
    """Rank 0 exited early with `exit_code`. The other ranks exit with the same code and print nothing, since rank 0 has
    reported the reason."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"rank 0 exited with exit code {exit_code}")
        self.exit_code = exit_code


def is_distributed() -> bool:
    """Whether this process is one of several ranks, started by `torchrun` or `accelerate launch`."""
    # from the launcher's variables: most commands never import torch, and training asks before its process group exists
    return int(os.environ.get("WORLD_SIZE") or 1) > 1


def is_main_process() -> bool:
    """Whether this process is rank 0, or the only one. It alone writes files."""
    return not is_distributed() or os.environ.get("RANK", "0") == "0"


def refuse_unsupported_launch(command: str | None) -> None:
    """Raise UserError for several ranks with a command that does not train, or for a model sharded by the launcher."""
    if is_distributed() and command not in DISTRIBUTED_COMMANDS:
        raise UserError(
            f"kobert {command} was started as {os.environ['WORLD_SIZE']} ranks, but only kobert pretrain and kobert "
            "finetune train on several; prepare with kobert run RECIPE --until features in one process first"
        )
    # checkpoints and evaluations only support the sharding of our own option plan.fsdp
    for variable, name in LAUNCHER_SHARDING.items():
        if os.environ.get(variable, "").lower() == "true":
            raise UserError(
                f"{name} is turned on ({variable}), but kobert does not support sharding by the launcher; start it by "
                f"torchrun, or by accelerate launch without {name}, and if memory is short add --set "
                "pretrain.plan.fsdp=true, or set plan.max_tokens_per_device"
            )


class Channel:
    """Messages from rank 0, which every other rank receives once and in order. The last one may be rank 0's exit
    code."""

    def __init__(self, store: "Store") -> None:
        self.store, self.message_index = store, 0

    def send(self, message: dict[str, Any]) -> None:
        """On rank 0: send the next message."""
        # a key per message: each rank reads at its own pace, and the store is not a queue
        self.store.set(f"message {self.message_index}", json.dumps(message))
        self.message_index += 1

    def receive(self, timeout: timedelta = NEXT_MESSAGE_TIMEOUT) -> dict[str, Any]:
        """On the other ranks: wait for the next message. Raises MainProcessExited if it is rank 0's exit code, and
        DistStoreError after `timeout`."""
        key = f"message {self.message_index}"
        self.store.wait([key], timeout)
        self.message_index += 1
        message: dict[str, Any] = json.loads(self.store.get(key))
        if "exit_code" in message:
            ignore_launcher()
            # SIGTERM is ignored by now: rank 0 exits once it has this, and then the launcher sends it
            self.store.set(f"acknowledged by {os.environ['RANK']}", "")
            destroy_process_group(message["exit_code"])
            raise MainProcessExited(message["exit_code"])
        return message

    def exit(self, exit_code: int) -> None:
        """On rank 0: send the exit code of an early exit to the other ranks, and wait until they have received it."""
        from torch.distributed import DistStoreError

        ignore_launcher()
        # SIGTERM is ignored by now: a rank that has read this may exit before this one, and then the launcher sends it
        self.send({"exit_code": exit_code})
        destroy_process_group(exit_code)
        acknowledgements = [f"acknowledged by {rank}" for rank in range(1, int(os.environ["WORLD_SIZE"]))]
        # once this process exits, the launcher stops the other ranks; by then they should have read the exit code
        with suppress(DistStoreError):  # ranks that wait in a collective fail as soon as this process has exited
            self.store.wait(acknowledgements, ACKNOWLEDGE_TIMEOUT)

    def exit_code_of_main(self, timeout: timedelta) -> int | None:
        """On the other ranks: rank 0's exit code if it exits early within `timeout`, else None."""
        from torch.distributed import DistStoreError

        try:
            while True:  # skip the messages before it that this rank has not read yet
                self.receive(timeout)
        except MainProcessExited as exited:
            return exited.exit_code
        except DistStoreError:
            return None


def ignore_launcher() -> None:
    """Ignore SIGTERM, which the launcher sends to every rank as soon as one has exited: this process is about to exit
    with a meaningful code of its own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


# cached, since without torchrun's agent rank 0 hosts the store in this object: it must live as long as the process
@cache
def channel() -> Channel:
    """The channel of this process, over the store that the launcher's environment variables name."""
    from torch.distributed import PrefixStore, rendezvous  # type: ignore[attr-defined]

    store, _, _ = next(iter(rendezvous("env://")))
    # a prefix, since torch keeps keys of its own in the same store
    return Channel(PrefixStore("kobert", store))


def destroy_process_group(exit_code: int = 0) -> None:
    """Destroy torch's process group, if there is one, unless `exit_code` is a bug's."""
    import torch

    # Without this gloo's threads may abort the process as it exits. After a bug (1) a collective may be unfinished, and
    # destroying the group could wait for ever.
    if torch.distributed.is_initialized() and exit_code != 1:
        torch.distributed.destroy_process_group()
        # torch's caches keep a sharded model's device mesh, and with it the group and its threads
        time.sleep(RELEASE_SECONDS)


def start_worker() -> None:
    """Initialize a worker process: it ignores Ctrl-C, and exits when its parent does, even by SIGKILL."""
    # the terminal sends Ctrl-C to all processes; the parent handles it and stops the workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    if parent := parent_process():
        parent.join()
        # `sys.exit` would end this thread only
        os._exit(1)
