"""Where the executor and the runtime find each other's numbers: int64 slots of the records they share.

A table has one row of STEP_SLOTS per step: the kernel's address, its args record's address, and whether all
threads meet after it. Threads write `arrived`, so it has a cache line for itself.
"""

STEP_SLOTS = 3

PROGRAM = ("table", "steps", "threads", "ticks", "yield", "", "", "", "arrived")
PROGRAM_SLOTS = 16

TEAM = ("job", "execute", "wait", "poll", "post", "semaphores")

TABLE, STEPS, THREADS, TICKS, YIELD = range(5)
ARRIVED = 8
JOB, EXECUTE, WAIT, POLL, POST, SEMAPHORES = range(6)
