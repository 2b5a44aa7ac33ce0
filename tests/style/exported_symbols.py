"""exported_symbols - libnib.so exports what nib.h declares, nothing else."""
import subprocess
from public import functions
from tap import BUILD, Tap

tap = Tap()
library = BUILD / ".libs" / "libnib.so"
declared = {name for name, _ in functions()}

if not library.exists():
    tap.skip("exported symbols", "no shared library was built")
else:
    table = subprocess.run(["nm", "-D", "--defined-only", str(library)],
                           check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1].split("@")[0]
                for line in table.splitlines()}
    tap.check("each declared function is exported",
              [f"not in libnib.so: {name}"
               for name in sorted(declared - exported)])
    tap.check("each exported symbol is declared",
              [f"not in nib.h: {name}"
               for name in sorted(exported - declared)])
tap.done()
