"""For every test: Ctrl-C means Ctrl-C, even where the suite runs in the background and SIGINT is ignored."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
