"""The commands of `fastgraph`, a module each: SUMMARY and DESCRIPTION for --help, `arguments` adds its arguments to a
parser, `command` runs it and gives its exit code. What a command needs is imported only when it runs.
"""
