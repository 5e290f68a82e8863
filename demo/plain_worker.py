"""The plain worker: a queue in SQLite, one job at a time, and a retry of what a crash cut short.

It is fair: every change is committed with a full sync, a job is marked as running before it is
started, a timeout kills, and the job's number goes along as the key for providers that take one.

    python -m demo.plain_worker QUEUE TIMEOUT_MS PROGRAM...
"""

import sqlite3
import subprocess
import sys
import time

JOBS = (
    "CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, tool, input, state DEFAULT 'queued')"
)


def open_queue(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=30)
    db.execute("PRAGMA synchronous = FULL")
    db.execute(JOBS)
    return db


def send(db: sqlite3.Connection, tool: str, text: str) -> None:
    """Queue a job."""
    db.execute("INSERT INTO jobs (tool, input) VALUES (?, ?)", (tool, text))


def run(program: list[str], timeout_ms: int, job: int, tool: str, text: str) -> str:
    """Run one job's tool; the state that the job then has."""
    try:
        argv = [*program, tool, f"{tool}-job-{job}"]
        done = subprocess.run(argv, input=text, text=True, timeout=timeout_ms / 1000, check=False)
    except subprocess.TimeoutExpired:
        return "timed_out"
    return "failed" if done.returncode else "done"


def work(queue: str, timeout_ms: str, *program: str) -> None:
    """Retry what was running when the last worker died, then run what is queued, then end."""
    db = open_queue(queue)
    db.execute("UPDATE jobs SET state = 'queued' WHERE state = 'running'")
    next_job = "SELECT id, tool, input FROM jobs WHERE state = 'queued' ORDER BY id LIMIT 1"
    while found := db.execute(next_job).fetchone():
        db.execute("UPDATE jobs SET state = 'running' WHERE id = ?", found[:1])
        state = run([*program], int(timeout_ms), *found)
        db.execute("UPDATE jobs SET state = ? WHERE id = ?", (state, found[0]))
        print(found[0], state, time.clock_gettime_ns(time.CLOCK_BOOTTIME), flush=True)


if __name__ == "__main__":
    work(*sys.argv[1:])
