"""thread_tags - each public function says which threads may call it.

Exactly one line of the comment before it starts with [setup], [any], [wait]
or [owner]. A group of declarations needs a comment each.
"""
import re
from public import functions, undeclared
from tap import Tap

TAG = re.compile(r"^ \* \[(setup|any|wait|owner)\]", re.M)

tap = Tap()
tap.check("each public function is declared NIB_API", list(undeclared()))
tap.check("each public function has one thread tag",
          [f"lib/nib.h: {name} has {len(TAG.findall(comment))} thread tags"
           for name, comment in functions()
           if len(TAG.findall(comment)) != 1])
tap.done()
