"""Settings of the operator: `config` of a `[[tool]]` in `toolcell.toml`. They are no place for secrets."""

import json

from . import _schema
from ._errors import ToolError

_class = None
_given = None


def configuration(settings):
    """Makes a dataclass the type of the settings of this package."""
    global _class
    _schema.schema(settings)
    _class = settings
    return settings


def configure(text):
    """Takes the operator's settings."""
    global _given
    if _class is None:
        raise ToolError("the tool takes no settings", code="no_settings", kind="setup_required")
    try:
        _given = _schema.decode(_class, json.loads(text))
    except _schema.Unusable as error:
        raise ToolError(f"the settings cannot be used: {error}", code="settings", kind="setup_required") from None


def configured(settings):
    """Returns the operator's settings, or `settings()` if there are none."""
    return _given if isinstance(_given, settings) else settings()


def reset():
    global _given
    _given = None
