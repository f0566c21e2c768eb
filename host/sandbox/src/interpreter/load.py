import builtins
import gc
import types


def load(modules):
    for name, source in json.loads(modules):
        module = types.ModuleType(name)
        sys.modules[name] = module
        exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    builtins._toolcell_call = sys.modules["_toolcell_call"].main
    # What is there now stays: a call that collects would look at all of it, and copy its pages.
    gc.collect()
    gc.freeze()


