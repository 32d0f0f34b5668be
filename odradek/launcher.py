"""Starts a module of the very package that this file belongs to, in a process of its own.

How this process has found the package (PYTHONPATH, `--target`, packages of the user, a changed
`sys.path`) is nothing that its child would repeat, and another version may be installed.  So this
file is the program of the child, and puts the package first.
"""

from __future__ import annotations

import os
import sys


def module_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module of this package as `python -m` does.

    The child is isolated (`python -I`).  Its modules are those of the standard library, then those
    beside this package, then what this process would import.
    """
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    return [sys.executable, "-I", os.path.abspath(__file__), path, module, *arguments]


def command_of_user() -> list[str]:
    """The words that run `odradek` as this process was run, from any working directory."""
    program = os.path.abspath(sys.argv[0])
    if os.path.basename(program) == "odradek" and os.access(program, os.X_OK):
        return [program]
    return module_command("odradek")


def _run() -> None:
    import runpy

    path, module = sys.argv.pop(1), sys.argv.pop(1)
    library = os.path.dirname(os.__file__)
    # Before the packages: some of them have a module of the same name.
    standard = [
        entry
        for entry in sys.path
        if entry in (library, os.path.join(library, "lib-dynload")) or entry.endswith(".zip")
    ]
    beside = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    entries = [*standard, beside, *path.split(os.pathsep), *sys.path]
    sys.path[:] = dict.fromkeys(entries)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run()
