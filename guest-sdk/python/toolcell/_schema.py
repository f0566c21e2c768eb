"""Type hints: their JSON Schema, and values of them from and to JSON."""

import dataclasses
import datetime
import enum
import inspect
import re
import types
import typing
from pathlib import Path, PurePath


class _Mark:
    """What an argument means for its permission, beside its type."""

    def __init__(self, name):
        self.name = name


WRITES = _Mark("writes")
URL = _Mark("url")

#: A path that the tool writes. A plain `Path` is only read.
WritablePath = typing.Annotated[Path, WRITES]
#: An URL that the tool reaches over the network.
Url = typing.Annotated[str, URL]

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_TIMES = {datetime.datetime: "date-time", datetime.date: "date", datetime.time: "time"}
_UNIONS = (typing.Union, types.UnionType)
_LISTS = (list, tuple, set, frozenset)
_MISSING = inspect.Parameter.empty


class Unusable(ValueError):
    """A value that does not fit its type."""


def hints(thing):
    return typing.get_type_hints(thing, include_extras=True)


def docs_of_parameters(doc):
    """Returns the text of a docstring without its section of parameters, and the texts of the parameters.

    Reads the styles of Google (`Args:`) and Sphinx (`:param name:`).
    """
    lines, texts, kept = inspect.cleandoc(doc or "").splitlines(), {}, []
    section, current, indent = None, None, 0
    for line in lines:
        heading = re.fullmatch(r"(Args|Arguments|Parameters|Attributes|Returns|Yields|Raises|Example|Examples):", line)
        sphinx = re.match(r":(?:param|ivar|cvar)\s+(?:[^:]*\s)?(\w+):\s*(.*)", line)
        other = re.match(r":(?:returns?|rtype|raises?|type)\b", line)
        if heading:
            section, current = heading[1], None
        elif sphinx:
            section, current = None, sphinx[1]
            texts[current] = sphinx[2]
        elif other:
            section, current = "Returns", None
        elif section in ("Args", "Arguments", "Parameters", "Attributes") and (line.startswith(" ") or not line):
            item = re.match(r"\s{1,8}\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)", line)
            deeper = current is not None and len(line) - len(line.lstrip()) > indent
            if item and not deeper:
                indent, current = len(line) - len(line.lstrip()), item[1]
                texts[current] = item[2]
            elif current is not None and line.strip():
                texts[current] += " " + line.strip()
        elif section is not None and (line.startswith(" ") or not line):
            continue
        elif current is not None and line.startswith(" "):
            texts[current] += " " + line.strip()
        else:
            section, current = None, None
            kept.append(line)
    return "\n".join(kept).strip(), {name: text.strip() for name, text in texts.items() if text.strip()}


def _choices(values):
    values = list(values)
    kinds = {_PLAIN.get(type(value)) for value in values}
    schema = {"enum": values}
    return {"type": kinds.pop(), **schema} if len(kinds) == 1 and None not in kinds else schema


def schema(hint):
    """Returns the JSON Schema of a type."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        found = schema(args[0])
        for note in args[1:]:
            if isinstance(note, str):
                found["description"] = note
            elif isinstance(note, dict):
                found.update(note)
            elif note is URL:
                found["format"] = "uri"
        return found
    if hint in (typing.Any, object):
        return {}
    if origin in _UNIONS:
        return _schema_of_union(args)
    if origin is typing.Literal:
        return _choices(args)
    if hint in _LISTS or origin in _LISTS:
        return _schema_of_list(origin or hint, args)
    if hint is dict or origin is dict:
        values = schema(args[1]) if args else {}
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if hint is None:
        return {"type": "null"}
    if hint in _TIMES:
        return {"type": "string", "format": _TIMES[hint]}
    if isinstance(hint, type) and issubclass(hint, PurePath):
        return {"type": "string"}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _choices(member.value for member in hint)
    if dataclasses.is_dataclass(hint) or typing.is_typeddict(hint):
        return _schema_of_record(hint)
    if isinstance(hint, typing.NewType):
        return schema(hint.__supertype__)
    raise TypeError(f"{hint!r} has no JSON Schema: use a plain type, a list, a dict, a dataclass or a TypedDict")


def _schema_of_union(args):
    schemas = [schema(arg) for arg in args]
    kinds = [list(found) == ["type"] and found["type"] for found in schemas]
    if all(kinds):
        return {"type": kinds if len(kinds) > 1 else kinds[0]}
    return {"anyOf": schemas}


def _schema_of_list(origin, args):
    found = {"type": "array"}
    if origin is tuple and args and args[-1] is not Ellipsis:
        return {**found, "prefixItems": [schema(arg) for arg in args], "items": False, "minItems": len(args)}
    if args:
        items = schema(args[0])
        found.update({"items": items} if items else {})
    return {**found, "uniqueItems": True} if origin in (set, frozenset) else found


def _fields(record):
    """Yields name, type and default of each field of a dataclass or a TypedDict."""
    found = hints(record)
    if typing.is_typeddict(record):
        for name, hint in found.items():
            if typing.get_origin(hint) in (typing.Required, typing.NotRequired):
                hint = typing.get_args(hint)[0]
            yield name, hint, _MISSING if name in record.__required_keys__ else None
        return
    for field in dataclasses.fields(record):
        if not field.init:
            continue
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        yield field.name, found[field.name], _MISSING if default is dataclasses.MISSING else default


def _schema_of_record(record):
    # The docstring that a dataclass makes for itself says nothing.
    doc = record.__doc__ or ""
    doc = "" if dataclasses.is_dataclass(record) and doc.startswith(f"{record.__name__}(") else doc
    text, texts = docs_of_parameters(doc)
    found = schema_of_arguments(_fields(record), texts)
    return {**found, "description": text} if text else found


def schema_of_arguments(fields, texts):
    """Returns the schema of an object with fields `(name, type, default)` and the descriptions `texts`."""
    properties, required = {}, []
    for name, hint, default in fields:
        found = schema(hint)
        if name in texts:
            found.setdefault("description", texts[name])
        if default is _MISSING:
            required.append(name)
        elif default is not None:
            found["default"] = encode(default)
        properties[name] = found
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def encode(value):
    """Returns the JSON value of a Python value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return encode(value.value)
    if isinstance(value, int):
        return _within_double(value)
    if value is None or isinstance(value, (str, float)):
        return value
    if isinstance(value, dict):
        return {str(encode(key)): encode(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((encode(item) for item in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


def _within_double(value):
    """Returns an integer that a reader of JSON can take. A larger one would make the whole answer unreadable."""
    try:
        float(value)
    except OverflowError:
        raise ValueError(
            f"an integer of {value.bit_length()} bits is no JSON number, whose limit is 1e308: return it as a string"
        ) from None
    return value


def _unfit(value, place, wanted):
    return Unusable(f"{place or 'the value'}: {type(value).__name__} where {wanted} is expected")


def decode(hint, value, place=""):
    """Returns the Python value of type `hint` for a JSON value."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return decode(args[0], value, place)
    if hint in (typing.Any, object):
        return value
    if origin in _UNIONS:
        return _decode_union(args, value, place)
    if origin is typing.Literal:
        if value not in args:
            raise _unfit(value, place, f"one of {list(args)}")
        return value
    if hint in _LISTS or origin in _LISTS:
        return _decode_list(origin or hint, args, value, place)
    if hint is dict or origin is dict:
        if not isinstance(value, dict):
            raise _unfit(value, place, "an object")
        return {k: decode(args[1], v, f"{place}/{k}") if args else v for k, v in value.items()}
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if hint in _PLAIN or hint is None:
        wanted = type(None) if hint is None else hint
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            raise _unfit(value, place, _PLAIN[wanted])
        return value
    if isinstance(hint, typing.NewType):
        return decode(hint.__supertype__, value, place)
    if dataclasses.is_dataclass(hint) or typing.is_typeddict(hint):
        return _decode_record(hint, value, place)
    try:
        return hint.fromisoformat(value) if hint in _TIMES else hint(value)
    except (TypeError, ValueError) as error:
        raise Unusable(f"{place or 'the value'}: {error}") from None


def _decode_union(args, value, place):
    # The exact type first, so that 1 stays an integer in `float | int`.
    exact = [arg for arg in args if arg in _PLAIN and type(value) is arg]
    for arg in (*exact, *args):
        try:
            return decode(arg, value, place)
        except Unusable as error:
            problem = error
    raise problem


def _decode_list(origin, args, value, place):
    if not isinstance(value, list):
        raise _unfit(value, place, "a list")
    if origin is tuple and args and args[-1] is not Ellipsis:
        if len(args) != len(value):
            raise Unusable(f"{place or 'the value'}: a list of {len(value)} items where {len(args)} are expected")
        return tuple(decode(arg, item, f"{place}/{at}") for at, (arg, item) in enumerate(zip(args, value)))
    return origin(decode(args[0], item, f"{place}/{at}") if args else item for at, item in enumerate(value))


def _decode_record(record, value, place):
    if not isinstance(value, dict):
        raise _unfit(value, place, "an object")
    return record(**decode_arguments(_fields(record), value, place))


def decode_arguments(fields, value, place=""):
    """Returns the keyword arguments for fields `(name, type, default)` from a JSON object."""
    fields = list(fields)
    for name, _, default in fields:
        if default is _MISSING and name not in value:
            raise Unusable(f"{place}/{name}: the value is missing")
    for name in value.keys() - {name for name, *_ in fields}:
        raise Unusable(f"{place}/{name}: there is no such field")
    return {name: decode(hint, value[name], f"{place}/{name}") for name, hint, _ in fields if name in value}


def _mark(found, place, mark):
    """Notes what is at a place. One that is read and written is written."""
    if {found.get(place, mark), mark} not in ({mark}, {"read", "write"}):
        raise TypeError(f"{place}: the types allow a path and a URL in one place: give each an argument of its own")
    found[place] = "write" if found.get(place) == "write" else mark


def marked(hint, place, found=None):
    """Returns the JSON Pointers of the paths and URLs in a type: `{pointer: "read" | "write" | "url"}`."""
    found = {} if found is None else found
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        if URL in args[1:]:
            _mark(found, place, "url")
        elif WRITES in args[1:]:
            _mark(found, place, "write")
        else:
            marked(args[0], place, found)
    elif isinstance(hint, typing.NewType):
        marked(hint.__supertype__, place, found)
    elif isinstance(hint, type) and issubclass(hint, PurePath):
        _mark(found, place, "read")
    elif origin is dict:
        # A pointer names the items of a list, and no keys that only a call has: such a path would be undeclared.
        if any(marked(arg, "") for arg in args):
            raise TypeError(
                f"{place}: paths and URLs in a dict cannot be declared: use a list, or a dataclass with a field for each"
            )
    elif origin in _UNIONS:
        for arg in args:
            marked(arg, place, found)
    elif origin in _LISTS:
        for arg in args:
            marked(arg, f"{place}/*", found)
    elif dataclasses.is_dataclass(hint) or typing.is_typeddict(hint):
        for name, inner, _ in _fields(hint):
            marked(inner, f"{place}/{name.replace('~', '~0').replace('/', '~1')}", found)
    return found
