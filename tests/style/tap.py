"""tap - results of the style checks, in the Test Anything Protocol.

A check is one line: ok if it found no fault, else not ok with each fault as
a diagnostic. SOURCE is the tree that the checks read.
"""
import os
import pathlib
import sys

SOURCE = pathlib.Path(os.environ.get("NIB_SRCDIR", "."))
BUILD = pathlib.Path(os.environ.get("NIB_BUILDDIR", "."))


class Tap:
    def __init__(self):
        self.count = 0
        self.failed = 0

    def check(self, name, faults):
        """One result; faults is a list of lines for the reader."""
        self.count += 1
        if not faults:
            print(f"ok {self.count} - {name}")
            return
        self.failed += 1
        print(f"not ok {self.count} - {name}")
        for fault in faults:
            print(f"# {fault}")

    def skip(self, name, reason):
        self.count += 1
        print(f"ok {self.count} - {name} # SKIP {reason}")

    def done(self):
        print(f"1..{self.count}")
        sys.exit(0)


def c_files(*folders):
    """The .c and .h files below folders of the source, sorted, as paths
    relative to it."""
    found = []
    for folder in folders:
        for path in (SOURCE / folder).rglob("*.[ch]"):
            found.append(path.relative_to(SOURCE))
    return sorted(found)


def read(path):
    return (SOURCE / path).read_text(encoding="utf-8")
