# tools - nib-bench and nib. They link libnibcore for its frame module.
