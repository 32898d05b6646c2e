"""Operations for clients that are not a person at a command line: assistants (`mcp`) and the workbench.

An operation (`operations.py` lists them) is a function from a request to an `Answer`, both plain data. `workers` runs
it in a process of its own, within `Limits`, which sees files in one `Folder` only (`guard`). design/0029 explains it.
"""
