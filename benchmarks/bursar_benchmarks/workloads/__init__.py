"""The workloads of `bursar bench`: one file each, with one function for each peer."""
