"""layers - a file of lib/ includes its own layer and lower ones, no other.

The programs' side of it: the daemon includes nothing of lib/ but nib.h, so
that the public interface must suffice.
"""
import re
from tap import Tap, c_files, read

LAYERS = ["base", "protocol", "system", "threads", "server"]
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def includes(path):
    for match in INCLUDE.finditer(read(path)):
        yield match.group(1)


def layer_faults(path, layer):
    allowed = LAYERS[:LAYERS.index(layer) + 1]
    for name in includes(path):
        if name == "nib.h":
            continue
        folder = name.split("/")[0] if "/" in name else None
        if folder is None:
            yield f'{path}: "{name}" does not name its layer'
        elif folder not in allowed:
            yield f'{path}: "{name}" is not of {", ".join(allowed)}'


tap = Tap()

strays = [f"{path}: not in one of {', '.join(LAYERS)}"
          for path in c_files("lib")
          if str(path) != "lib/nib.h" and path.parts[1] not in LAYERS]
tap.check("each file of lib/ but nib.h is in a layer", strays)

for layer in LAYERS:
    faults = []
    for path in c_files(f"lib/{layer}"):
        faults += layer_faults(path, layer)
    tap.check(f"lib/{layer} includes no higher layer", faults)

faults = []
for path in c_files("daemon"):
    for name in includes(path):
        if name.split("/")[0] in LAYERS:
            faults.append(f'{path}: "{name}"; the daemon sees nib.h only')
tap.check("the daemon includes nib.h alone", faults)

tap.done()
