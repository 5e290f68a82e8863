"""What real tools do to whoever runs them, on request: `{"trouble": ["helper", "wait"]}`.

`helper`    start a helper process and forget it (a browser, a build server)
`wait`      stand at the provider's door `begin` before anything is done
`stubborn`  ignore SIGTERM, hide a second process in a session of its own, and never finish
"""

import os
import sys
import time

import deeds

HELPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "helper.py")


def begin(given):
    """Make the trouble that the input asks for."""
    for trouble in given.get("trouble", ()):
        {"helper": start_helper, "wait": wait, "stubborn": stubborn}[trouble](given)


def start_helper(_given):
    import subprocess

    subprocess.Popen([sys.executable, HELPER])


def wait(_given):
    deeds.ask("DEMO_PAYMENTS", "POST", "/walk-through/begin")


def stubborn(given):
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Two forks and a session of its own: no parent and no process group leads to it any more.
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            read_for_a_minute(given["name"])
        os._exit(0)
    os.wait()
    read_for_a_minute(given["name"])


def read_for_a_minute(name):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        deeds.read_report(name)
        time.sleep(0.1)
