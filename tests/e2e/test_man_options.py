"""test_man_options - the pages of the programs list the options of --help.

And the other way round: no page promises what is not there. nib-bench's page
also has every key of --json.
"""
import os
import re

import nibtest

PAGES = os.path.join(os.environ.get("NIB_SRCDIR", "."), "man")
COMMANDS = {
    "nib": ("nib.1", [[]]),
    "nibd": ("nibd.8", [[], ["hub"], ["echo"]]),
    "nib-bench": ("nib-bench.1", [[], ["serve"], ["stream"], ["cycle"],
                                  ["echo"], ["idle"], ["broadcast"]]),
}


def help_of(name, words):
    status, out, _ = nibtest.command(name, *words, "--help")
    nibtest.equal(status, 0, "status of --help")
    return out


def options_of_help(text):
    return set(re.findall(r"^ +(?:-\w, )?--([\w-]+)", text, re.M)) | \
        set(re.findall(r"^ +-(\w), --", text, re.M))


def options_of_page(text):
    """Those that an .It explains, "-json" or "n"."""
    found = set()
    for line in re.findall(r"^\.It (Fl .*)", text, re.M):
        found |= {word.lstrip("-")
                  for word in re.findall(r"(?:Fl |, )(?!Fl)(-?[\w-]+)", line)}
    return found


def check(name, page, commands):
    with open(os.path.join(PAGES, page), encoding="utf-8") as file:
        text = file.read()
    helps = [help_of(name, words) for words in commands]
    # The help of all commands together does not list -h and --version.
    known = {"h", "help", "version"}.union(*map(options_of_help, helps))
    nibtest.equal(sorted(options_of_page(text)), sorted(known), page)
    keys = [key for part in helps if "--json:" in part
            for key in re.findall(r"^  ([a-z]\w+)  ",
                                  part.split("--json:")[1], re.M)]
    nibtest.equal([key for key in keys
                   if not re.search(rf"^\.It Li .*\b{key}\b", text, re.M)],
                  [], "keys that are not in the page")


for program, (manual, calls) in COMMANDS.items():
    if not os.path.exists(nibtest.program(program)):
        continue
    nibtest.case(manual + " has the options of --help")(
        lambda a=program, b=manual, c=calls: check(a, b, c))

nibtest.run()
