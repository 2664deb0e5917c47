"""Runs a program with something on its standard input, for the channels that are programs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence


def run(
    arguments: Sequence[str],
    data: bytes,
    *,
    timeout: float,
    environment: Mapping[str, str] | None = None,
    end_input: bool = True,
) -> int:
    """Run a program without a shell and without keeping what it prints; its exit code.

    Args:
        arguments: The program and its arguments.
        data: What its standard input gives it.
        timeout: Seconds after which it is killed, with what it has started.
        environment: Its environment; by default ours.
        end_input: Whether its standard input ends after the data; else it ends when the program does, or we do.

    Raises:
        OSError, ValueError: It cannot be started.
        TimeoutError: It was killed.
    """
    process = subprocess.Popen(
        arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=environment,
    )
    try:
        if end_input:
            process.communicate(data, timeout=timeout)
        else:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(data)
                process.stdin.flush()
            process.wait(timeout=timeout)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError, AttributeError):  # Windows has no groups
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
        raise TimeoutError(f"it took more than {timeout:g} s") from None
    finally:
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
    return process.returncode
