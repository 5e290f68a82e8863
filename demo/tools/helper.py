"""A process that a tool starts and forgets. It ends by itself, in case the demo is killed."""

import time

time.sleep(60)
