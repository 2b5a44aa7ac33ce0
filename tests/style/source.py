"""source - rules of C style that a script can check. See HACKING."""
import re
from tap import Tap, c_files, read

WIDTH = 100
FILE_LINES = 700
FUNCTION_LINES = 120

# Not in what we ship: no bound, hidden state, or no way to report an error.
BANNED = "strcpy strcat sprintf vsprintf gets strtok atoi atol atof rand " \
         "strncpy asctime ctime gmtime localtime tmpnam alloca".split()
# Not in the library: it never prints, exits, sleeps or changes signals.
BANNED_IN_LIB = "printf fprintf vprintf vfprintf puts fputs putchar perror " \
                "exit _exit signal sigaction sleep usleep nanosleep " \
                "system popen fork strerror".split()
# What a failed check of a debug build says on its way to abort() is allowed.
DEBUG_PART = re.compile(r"^#ifdef NIB_DEBUG$.*?^#(?:else|endif)", re.M | re.S)
# In the library, only base/alloc.c may call these.
MEMORY = "malloc calloc realloc reallocarray free strdup strndup asprintf " \
         "vasprintf".split()


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def strip(text):
    """The text with comments and literals blanked; lines stay in place."""
    token = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"'
                       r"|'(?:\\.|[^'\\\n])*'", re.S)
    return token.sub(blank, text)


def calls(path, names, but=None):
    """Calls of functions with these names, not of members called so, outside
    of what the pattern `but` matches."""
    pattern = re.compile(r"(?<![\w.>])(" + "|".join(names) + r")\s*\(")
    text = strip(read(path))
    if but:
        text = but.sub(blank, text)
    for number, line in enumerate(text.split("\n"), 1):
        for match in pattern.finditer(line):
            yield f"{path}:{number}: {match.group(1)}"


def lines_where(path, wrong):
    for number, line in enumerate(read(path).split("\n"), 1):
        if wrong(line):
            yield f"{path}:{number}"


def first_comment_faults(path):
    text = read(path)
    start = re.match(r"/\*\n \* ([\w-]+) - \S", text)
    if not start:
        yield f'{path}: does not start with "/*", " * name - what it is"'
    elif start.group(1).replace("-", "_") != path.stem.replace("-", "_"):
        yield f"{path}: its first comment calls it {start.group(1)}"


def function_faults(path):
    start = None
    for number, line in enumerate(strip(read(path)).split("\n"), 1):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start is not None:
            if number - start - 1 > FUNCTION_LINES:
                yield f"{path}:{start}: {number - start - 1} lines"
            start = None


ours = c_files("lib", "daemon", "tools")
everything = ours + c_files("tests")
library = c_files("lib")
tap = Tap()


def rule(name, files, faults_of):
    tap.check(name, [fault for path in files for fault in faults_of(path)])


rule("no banned function", ours, lambda p: calls(p, BANNED))
rule("the library does not print, exit, sleep or touch signals", library,
     lambda p: calls(p, BANNED_IN_LIB, DEBUG_PART))
rule("memory through base/alloc",
     [p for p in library if str(p) != "lib/base/alloc.c"],
     lambda p: calls(p, MEMORY))
rule(f"no line over {WIDTH} columns", everything,
     lambda p: lines_where(p, lambda line: len(line) > WIDTH))
rule("no tabs", everything, lambda p: lines_where(p, lambda s: "\t" in s))
rule("no white space at a line's end", everything,
     lambda p: lines_where(p, lambda line: line != line.rstrip()))
rule("each file starts with a comment that names it", everything,
     first_comment_faults)
rule(f"no file over {FILE_LINES} lines",
     [p for p in ours if str(p) != "lib/nib.h"],
     lambda p: [f"{p}: {n} lines"
                for n in [read(p).count("\n")] if n > FILE_LINES])
rule(f"no function over {FUNCTION_LINES} lines", ours, function_faults)
tap.done()
