"""Finds the program."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Optional, Union

from ._errors import ToolcellError

_NAME = "toolcell.exe" if os.name == "nt" else "toolcell"
_VARIABLE = "TOOLCELL"


def find(program: Optional[Union[str, os.PathLike[str]]]) -> str:
    """The path of the program: the argument, else the variable TOOLCELL, else the one inside this package, else PATH.

    Raises ToolcellError if there is none.
    """
    for said, where in ((program, "the argument `program`"), (os.environ.get(_VARIABLE), f"the variable {_VARIABLE}")):
        if said:
            found = _which(os.fspath(said))
            if found is None:
                raise _missing(f"{where} names {os.fspath(said)!r}, which is not a program that can be run")
            return found
    inside = Path(__file__).parent / "bin" / _NAME
    if inside.is_file():
        return str(inside)
    found = _which(_NAME)
    if found is None:
        raise _missing(f"there is no {_NAME} inside this package, and none on PATH")
    return found


def _which(name: str) -> Optional[str]:
    """The path of the program `name`. A relative folder of PATH, such as that of an empty entry, is left out: it is in the
    current folder, which can be a project of others."""
    if os.path.dirname(name):
        found = shutil.which(name)
        return None if found is None else str(Path(found).absolute())
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]
    for folder in folders:
        found = shutil.which(os.path.join(folder, name))
        if found is not None:
            return found
    return None


def _missing(why: str) -> ToolcellError:
    hint = f"install toolcell, or say where it is: Toolcell(program=..), or the variable {_VARIABLE}"
    return ToolcellError("setup_required", "program_not_found", f"cannot find the program toolcell: {why}", hint=hint)
