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
            found = shutil.which(os.fspath(said))
            if found is None:
                raise _missing(f"{where} names {os.fspath(said)!r}, which is not a program that can be run")
            return str(Path(found).absolute())
    inside = Path(__file__).parent / "bin" / _NAME
    if inside.is_file():
        return str(inside)
    found = shutil.which(_NAME)
    if found is None:
        raise _missing(f"there is no {_NAME} inside this package, and none on PATH")
    # A relative entry of PATH would be looked up again in another folder.
    return str(Path(found).absolute())


def _missing(why: str) -> ToolcellError:
    hint = f"install toolcell, or say where it is: Toolcell(program=..), or the variable {_VARIABLE}"
    return ToolcellError("setup_required", "program_not_found", f"cannot find the program toolcell: {why}", hint=hint)
