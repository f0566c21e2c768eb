"""The modules of the standard library that a snippet can import."""

import importlib

MODULES = """
    abc argparse array ast base64 binascii bisect calendar cmath codecs collections collections.abc colorsys
    concurrent.futures configparser contextlib contextvars copy copyreg csv dataclasses datetime decimal difflib dis email
    email.message email.mime.multipart email.mime.text email.parser email.policy email.utils encodings.idna
    encodings.punycode enum errno fileinput fnmatch fractions functools gc getopt glob graphlib gzip hashlib heapq hmac html
    html.entities html.parser importlib importlib.resources importlib.util inspect io ipaddress itertools json keyword
    linecache locale logging math mimetypes numbers operator os os.path pathlib pickle pkgutil platform plistlib pprint
    queue quopri random re reprlib sched secrets select shelve shlex shutil signal socket sqlite3 stat statistics string
    string.templatelib stringprep struct subprocess sys tarfile tempfile textwrap threading time timeit token tokenize
    tomllib traceback types typing unicodedata urllib urllib.error urllib.parse urllib.request uuid warnings wave weakref
    xml xml.dom.minidom xml.etree.ElementTree xml.sax.saxutils zipfile zlib zoneinfo _strptime _colorize _suggestions
    _pydatetime
""".split()

#: Codecs, which are modules that are imported by name when a text is encoded.
CODECS = """
    ascii base64 charmap cp437 cp850 cp1250 cp1251 cp1252 hex idna iso8859-1 iso8859-2 iso8859-15 latin-1 mac-roman punycode
    quopri raw-unicode-escape rot13 unicode-escape utf-16 utf-16-be utf-16-le utf-32 utf-32-be utf-32-le utf-7 utf-8
    utf-8-sig zlib
""".split()


def load():
    """Imports all of them. Returns those that this Python does not have."""
    missing = []
    for name in MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    for name in CODECS:
        try:
            "a".encode(name)
        except (LookupError, TypeError, ValueError):
            # Codecs between bytes refuse a text once they are there.
            pass
    return missing
