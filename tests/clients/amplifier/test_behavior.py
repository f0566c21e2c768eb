"""The suite of the framework for any tool module, as it is."""

from amplifier_core.validation.behavioral import ToolBehaviorTests


class TestToolcellBehavior(ToolBehaviorTests):
    pass
