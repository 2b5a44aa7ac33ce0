"""man_functions - the pages of section 3 say what nib.h says.

Each public function stands in one page's SYNOPSIS with its declaration, in
that page's NAME (whose names become links when pages are installed), and in
THREADS below the tag that its comment in nib.h carries. The page names each
error that the comment names. What a page shows of a program in tests/examples
is a part of it.
"""
import re
from public import functions
from tap import SOURCE, Tap, read

TAG = re.compile(r"^ \* \[(\w+)\]", re.M)
ERROR = re.compile(r"-E[A-Z0-9]+|\bNIB_E[A-Z]+")
EXAMPLE = re.compile(r'^\.\\" (tests/examples/\w+\.c)\n\.Bd -literal\n(.*?)'
                     r"^\.Ed$", re.M | re.S)
PROTOTYPE = re.compile(r'^\.Ft (.*)\n\.Fo (\w+)\n((?:\.Fa .*\n)*)\.Fc$', re.M)


def section(text, name):
    found = re.search(rf"^\.Sh {name}\n(.*?)(?=^\.Sh |\Z)", text, re.M | re.S)
    return found.group(1) if found else ""


def spaceless(text):
    """A declaration without white space, but between words."""
    return re.sub(r"\s*([^\w\s])\s*", r"\1", " ".join(text.split()))


def prototypes(page):
    """Pairs of name and declaration of a SYNOPSIS."""
    for kind, name, rest in PROTOTYPE.findall(section(page, "SYNOPSIS")):
        arguments = re.findall(r'^\.Fa "?(.*?)"?$', rest, re.M)
        declared = kind.strip('"') + " " + name + \
            "(" + ", ".join(arguments) + ");"
        yield name, spaceless(declared)


def threads(page):
    """Pairs of name and tag of a THREADS."""
    tag = None
    for line in section(page, "THREADS").split("\n"):
        word = re.match(r"\.(It Bq|Fn) (\w+)", line)
        if word and word.group(1) == "Fn":
            yield word.group(2), tag
        elif word:
            tag = word.group(2)


def declarations():
    """The declaration of each function of nib.h, by its name."""
    header = re.sub(r"/\*.*?\*/", "", read("lib/nib.h"), flags=re.S)
    for text in re.findall(r"^NIB_API\s([^;]*;)", header, re.M):
        yield re.search(r"\b(nib_\w+)\s*\(", text).group(1), spaceless(text)


def shown_faults(name, page):
    """Examples that are not, line by line, a part of their program."""
    for path, shown in EXAMPLE.findall(page):
        program = read(path)
        shown = re.sub(r"^\\&", "", shown, flags=re.M).replace("\\e", "\\")
        if "\n" + shown not in "\n" + program:
            yield f"{name}: shows what is not in {path}"


pages = {"man/" + path.name: path.read_text(encoding="utf-8")
         for path in sorted((SOURCE / "man").glob("*.3"))}
where = {}
for path, text in pages.items():
    for function, declared in prototypes(text):
        where.setdefault(function, []).append((path, declared))
header = dict(declarations())
comments = dict(functions())
home = {function: found[0][0] for function, found in where.items()}

tap = Tap()
tap.check("each public function is in one page's SYNOPSIS",
          [f"{function}: in {len(where.get(function, []))} pages"
           for function in header if len(where.get(function, [])) != 1])
tap.check("each SYNOPSIS declares as nib.h does",
          [f"{path}: {declared}" for function, found in where.items()
           for path, declared in found if header.get(function) != declared])
tap.check("each NAME lists the functions of its SYNOPSIS",
          [f"{path}: NAME {names}, SYNOPSIS {declared}"
           for path, text in pages.items() if path != "man/nib.3"
           for names in [re.findall(r"^\.Nm (\w+)", section(text, "NAME"),
                                    re.M)]
           for declared in [[name for name, _ in prototypes(text)]]
           if names != declared])
tap.check("each THREADS has the tags of nib.h",
          [f"{path}: {got} instead of {expected}"
           for path, text in pages.items()
           for got in [sorted(threads(text))]
           for expected in [sorted((name, TAG.search(comments[name]).group(1))
                                   for name, _ in prototypes(text)
                                   if name in comments)]
           if got != expected])
tap.check("each page names the errors of its functions",
          [f"{home[function]}: {function}: {error}"
           for function, comment in comments.items() if function in home
           for error in ERROR.findall(comment)
           if error not in pages[home[function]]])
tap.check("nib(3) refers to each function",
          [function for function in header
           if f"Xr {function} 3" not in pages["man/nib.3"]])
tap.check("examples are what the pages show",
          [fault for path, text in pages.items()
           for fault in shown_faults(path, text)])
tap.done()
