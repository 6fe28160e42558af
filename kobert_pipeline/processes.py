"""What processes that work together need to know of each other."""

import os
import signal
import threading
from multiprocessing import parent_process

from kobert_pipeline.errors import UserError

TRAINING = ("pretrain", "finetune")
"""The commands that several processes may do together."""
SHARDING = {"ACCELERATE_USE_FSDP": "FSDP", "ACCELERATE_USE_DEEPSPEED": "DeepSpeed", "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM"}
"""Ways of `accelerate launch` to cut a model up."""


class Ended(Exception):
    """The first of several processes ended early, with `status`. So do the others, and say nothing: it has said why."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the first process ended with status {status}")
        self.status = status


def several() -> bool:
    """Whether this process is one of several that train together, started by `torchrun` or `accelerate launch`."""
    return int(os.environ.get("WORLD_SIZE") or 1) > 1


def leads() -> bool:
    """Whether this process writes files: it is alone, or the first of several."""
    return not several() or os.environ.get("RANK", "0") == "0"


def refuse_to_share(command: str | None) -> None:
    """Raise UserError where the launcher asked for what is not done: several processes for a command that trains nothing, or a model cut
    up in the launcher's way (checkpoints, evaluations and the model folder know ours alone)."""
    if several() and command not in TRAINING:
        raise UserError(
            f"kobert {command} was started as {os.environ['WORLD_SIZE']} processes, which only train together, by kobert pretrain and "
            f"kobert finetune; prepare with kobert run RECIPE --until features in one process first"
        )
    for variable, way in SHARDING.items():
        if os.environ.get(variable, "").lower() == "true":
            raise UserError(
                f"{way} is asked for ({variable}), but kobert does not cut models up in the launcher's way; start it by torchrun, or by "
                f"accelerate launch without {way}, and where memory is short add --set pretrain.plan.fsdp=true, or raise "
                f"plan.gradient_accumulation_steps"
            )


_terminated: list[int] = []


def terminated() -> bool:
    """Whether SIGTERM reached this process after `interrupt_on_sigterm`."""
    return bool(_terminated)


def interrupt_on_sigterm() -> None:
    """From now on SIGTERM interrupts this process as Ctrl-C does, so that it leaves in good order and says that its work can be resumed.
    Not in distributed training, where the launcher sends it to every process as soon as one has ended, nor outside the main thread."""
    _terminated.clear()
    if several() or threading.current_thread() is not threading.main_thread():
        return

    def interrupt(number: int, frame: object) -> None:
        _terminated.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def leave_sigterm() -> None:
    """Give SIGTERM back its usual meaning, if `interrupt_on_sigterm` took it."""
    if getattr(signal.getsignal(signal.SIGTERM), "__name__", "") == "interrupt":
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def begin_worker() -> None:
    """What every worker process does first: leave Ctrl-C, which reaches all processes of a terminal, to the process in charge, and end when
    that one does, even by SIGKILL."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := parent_process():
        parent.join()
        os._exit(1)
