import json, random, sys, time
from tests.plan import record_mutants as m
from fastgraph.kernels.isa.tiers import BY_NAME
from fastgraph.plan.program import Step
from fastgraph import compile as compiling
from fastgraph.plan.lower.window import depth_first
from fastgraph.plan.records import verify_records
from fastgraph.errors import PlanError
compiling.linked = lambda *given: {}
tier = BY_NAME[sys.argv[1]]; per = int(sys.argv[2]); out = sys.argv[3]; only = set(sys.argv[4:])
class F:  # what mutated() wants
    def __init__(self, c): self.program=c.program; self.c=c
says = {}
t0=time.process_time()
for name, build in m.GRAPHS.items():
    if name == "amx" and not tier.tiles: continue
    depth_first.WORTH = 1
    c = compiling.compiled(build(), {}, tier, 2)
    steps = c.program.steps
    seen = {}
    for at, step in enumerate(steps):
        if not isinstance(step, Step): continue
        k = step.kernel.name
        if only and k not in only: continue
        if seen.get(k, 0) >= 3: continue
        seen[k] = seen.get(k, 0) + 1
        rng = random.Random(f"{name} {at}")
        f = F(c)
        for i in range(per):
            ch, what = m.mutated(rng, f, step)
            steps[at] = ch
            try:
                verify_records(c.program, tier, c.threads, c.graph.inputs, c.graph.outputs); r = ""
            except PlanError as e: r = str(e)
            except Exception as e: r = "CRASH " + repr(e)
            finally: steps[at] = step
            says[f"{name}|{at}|{step.kernel}|{i}"] = [r, what]
json.dump(says, open(out, "w"))
print(len(says), sum(not v[0] for v in says.values()), time.process_time()-t0)
