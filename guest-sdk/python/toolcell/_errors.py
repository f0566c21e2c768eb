"""What a tool raises, and what the host reads of it."""

import re
import traceback

CLASSES = (
    "invalid_arguments", "capability_gap", "setup_required", "credential_missing", "timeout", "rate_limited",
    "dependency_unavailable", "execution_failed", "partial_failure", "result_too_large", "canceled",
)


class ToolError(Exception):
    """Why a tool failed.

    `message` is one sentence for the model and the user. `code` is stable, snake_case and the tool's own. `kind` is one of
    the classes of Agent Tool, such as `invalid_arguments`; a class of a later specification keeps its word. `detail` is kept
    in the record and never shown to the model. `retry_after` is in seconds.
    """

    def __init__(self, message, *, code="failed", kind="execution_failed", detail=None, retry_after=None):
        super().__init__(message)
        self.message = str(message)
        self.code = code
        self.kind = kind
        self.detail = detail
        self.retry_after = retry_after


class Canceled(ToolError):
    """The call was canceled. Let it pass, after cleaning up."""

    def __init__(self, message="the call was canceled", *, code="canceled"):
        super().__init__(message, code=code, kind="canceled")


class NotAnswered(Canceled):
    """The user declined to answer a question, or closed it."""

    def __init__(self, message):
        super().__init__(message, code="not_answered")


def failure(error):
    """Returns any exception as a `ToolError`, with its traceback as the detail unless it has one."""
    detail = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    if isinstance(error, ToolError):
        copy = ToolError(
            error.message, code=error.code, kind=error.kind, detail=error.detail, retry_after=error.retry_after
        )
        copy.detail = error.detail if error.detail is not None else detail
        return copy
    name = type(error).__name__
    code = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    if isinstance(error, SystemExit):
        return ToolError(f"the tool exited with {error.code}", code="exit", detail=detail)
    if isinstance(error, ModuleNotFoundError):
        # A component has the modules that were imported when it was built, and no files to import others from.
        hint = "the component has no such module: import it at the top of a module of the project, and build again"
        return ToolError(f"{error}: {hint}", code=code, detail=detail)
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f": {error.filename}"
        return ToolError(f"{error.strerror}{place}", code=code, detail=detail)
    return ToolError(f"{name}: {error}" if str(error) else name, code=code, detail=detail)
