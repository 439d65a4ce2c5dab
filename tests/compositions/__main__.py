"""python -m tests.compositions"""

from tests.compositions.campaign import main

main()
