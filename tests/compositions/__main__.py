"""python -m tests.compositions"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from compositions.campaign import main  # noqa: E402

main()
