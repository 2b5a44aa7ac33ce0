"""listed - every source file and test is named in its folder's local.mk.

What is not named is not built, not run and not in the distribution.
"""
from tap import SOURCE, Tap, read

SOURCES = ["lib/**/*.[ch]", "daemon/*.[ch]", "tools/*.[ch]"]
TESTS = ["tests/unit/*", "tests/api/*", "tests/e2e/*.py", "tests/e2e/*.sh",
         "tests/style/*", "tests/stress/*", "tests/model/*",
         "tests/bench/*", "tests/tls/*", "tests/fault/*", "tests/analyze/*",
         "tests/examples/*.c"]
PAGES = ["man/*.[1-9]"]


def missing(patterns):
    for pattern in patterns:
        for path in sorted(SOURCE.glob(pattern)):
            if path.suffix not in (".c", ".h", ".py", ".sh") and \
                    pattern not in PAGES:
                continue
            name = path.relative_to(SOURCE)
            folder = name.parts[0]
            entry = "%D%/" + "/".join(name.parts[1:])
            # A test of one file is listed as the program that it becomes.
            words = read(f"{folder}/local.mk").split()
            if entry not in words and entry.removesuffix(".c") not in words:
                yield f"{folder}/local.mk does not name {entry}"


tap = Tap()
tap.check("each source file is listed", list(missing(SOURCES)))
tap.check("each test is listed", list(missing(TESTS)))
tap.check("each man page is listed", list(missing(PAGES)))
tap.done()
