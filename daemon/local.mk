# daemon - nibd. It links the shared library alone: what it needs must be in
# nib.h.
