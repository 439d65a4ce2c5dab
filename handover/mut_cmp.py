import json, sys
from collections import Counter
a, b = (json.load(open(p)) for p in sys.argv[1:3])
lax, strict = Counter(), Counter(); shown = Counter()
for k in a.keys() & b.keys():
    (x, w), (y, _) = a[k], b[k]
    kern = k.split("|")[2]; kn = kern.split("(")[0].split(" ")[0]
    if bool(x) != bool(y) or y.startswith("CRASH"):
        which = "LAX" if x and not y else "STRICT" if y and not x else "CRASH"
        shown[kn, which] += 1
        if shown[kn, which] <= 4: print(which, k, w, "OLD:", x[-160:], "NEW:", y[-200:])
print(dict(shown), len(a), len(b), len(a.keys() & b.keys()))
