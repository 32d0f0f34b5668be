"""Coverage-guided fuzzing of frames before and after authentication, by Atheris (libFuzzer).

`python -m tests.security.guided_fuzz --frames 1000000` appends a line to `guided_fuzz.jsonl`:
executions, frames, the inputs that are kept and the branches that they cover, crashes and hangs.
A failing input is left in build/fuzz; `--input FILE` runs it again.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final

from tests.support import ledger

LEDGER: Final = Path(__file__).with_name("guided_fuzz.jsonl")
FOLDER: Final = Path("build/fuzz")
INSTRUMENTED: Final = (
    "odradek.broker.security",
    "odradek.broker.server",
    "odradek.broker.handlers",
    "odradek.protocol",
)
INPUT_BYTES_MAX: Final = 8_192
HANG_S: Final = 30
STATUS: Final = re.compile(r"#(\d+)\s+(\w+)\s+cov: (\d+) ft: (\d+) corp: (\d+)/")


def fuzz(frames: int, inputs: Path, seed: int) -> None:
    """In a process of its own, which ends when so many frames were sent."""
    import atheris

    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        from tests.security.fuzzed_listener import fuzzed_listener, seeds

    if not any(inputs.iterdir()):
        for number, content in enumerate(seeds(Random(seed))):
            (inputs / f"seed-{number}").write_bytes(content)
    with tempfile.TemporaryDirectory() as folder, fuzzed_listener(Path(folder)) as listener:

        def run(content: bytes) -> None:
            listener.run(content)
            if listener.frames >= frames:
                sys.stderr.flush()
                print(f"frames {listener.frames}", flush=True)
                os._exit(0)

        options = [
            f"-seed={seed}",
            f"-max_len={INPUT_BYTES_MAX}",
            f"-timeout={HANG_S}",
            f"-artifact_prefix={FOLDER}/",
            "-len_control=0",
        ]
        atheris.Setup([sys.argv[0], *options, str(inputs)], run)
        atheris.Fuzz()


def campaign(frames: int, seed: int) -> int:
    """Fuzz in a child; the exit code is 1 after a crash or a hang."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.security.guided_fuzz", "--child"]
    command += ["--frames", str(frames), "--seed", str(seed)]
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as inputs:
        command += ["--inputs", inputs]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    states = [status.groups() for status in STATUS.finditer(done.stderr)]
    first = next(state for state in states if state[1] == "INITED")
    last = states[-1]
    sent = re.search(r"^frames (\d+)", done.stdout, re.M)
    ledger.append(
        LEDGER,
        {
            "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "commit": ledger.commit(),
            "seed": seed,
            "frames": int(sent[1]) if sent else None,
            "executions": int(last[0]),
            "branches": [int(first[2]), int(last[2])],
            "features": [int(first[3]), int(last[3])],
            "inputs": [int(first[4]), int(last[4])],
            "seconds": round(time.monotonic() - began_s),
            "crashes": len(list(FOLDER.glob("crash-*"))),
            "hangs": len(list(FOLDER.glob("timeout-*"))),
        },
    )
    if done.returncode != 0:
        print(done.stderr[-10_000:], file=sys.stderr)
    return int(done.returncode != 0)


def main() -> int:
    """Run a campaign, or one input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--input", type=Path)
    parser.add_argument("--inputs", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        fuzz(options.frames, options.inputs, options.seed)
    elif options.input is not None:
        from tests.security.fuzzed_listener import fuzzed_listener

        with tempfile.TemporaryDirectory() as folder, fuzzed_listener(Path(folder)) as listener:
            listener.run(options.input.read_bytes())
    else:
        return campaign(options.frames, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
