"""public - the functions that nib.h declares, each with its comment."""
import re
from tap import read

DECLARATION = re.compile(
    r"(?P<comment>/\*(?:(?!\*/).)*\*/)?\s*"
    r"^NIB_API\s[^;]*?\b(?P<name>nib_\w+)\s*\([^;]*;", re.M | re.S)


def functions():
    """Pairs of name and comment ("" if none) in the header's order."""
    for match in DECLARATION.finditer(read("lib/nib.h")):
        yield match.group("name"), match.group("comment") or ""


def undeclared():
    """Lines that look like a public function but lack NIB_API."""
    text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()),
                  read("lib/nib.h"), flags=re.S)
    for number, line in enumerate(text.split("\n"), 1):
        if re.match(r"(?!NIB_API|typedef)\w[\w\s*]*\bnib_\w+\(", line):
            yield f"lib/nib.h:{number}: {line}"
