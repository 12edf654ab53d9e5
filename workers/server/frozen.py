"""A fork server imports this last, so that its processes share the memory of what it imported before.

Their garbage collectors pass over it. To look at an object is to write to it, and so to copy it.
"""

import gc
import signal

gc.freeze()

# The server was started with Ctrl-C blocked. One that came meanwhile is for the main process.
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
signal.signal(signal.SIGINT, signal.default_int_handler)
