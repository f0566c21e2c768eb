import builtins
import types


def load(modules):
    for name, source in json.loads(modules):
        module = types.ModuleType(name)
        sys.modules[name] = module
        exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    builtins._toolcell_call = sys.modules["_toolcell_call"].main


