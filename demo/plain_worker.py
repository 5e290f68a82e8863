"""The plain worker: a queue in SQLite, a few jobs at a time, a retry of what a crash cut short.

It is fair: every change is committed with a full sync, a job is marked as running before it is
started, a timeout kills, and the job's number goes along as the key for providers that take one.

    python -m demo.plain_worker QUEUE TIMEOUT_MS PROGRAM...
"""

import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

TAKE = "UPDATE jobs SET state = 'running' WHERE state = 'queued' RETURNING id, tool, input"
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


def run(program: list[str], timeout_ms: int, job: int, tool: str, text: str) -> tuple[int, str]:
    """Run one job's tool; the job, and the state that it then has."""
    try:
        argv = [*program, tool, f"{tool}-job-{job}"]
        done = subprocess.run(argv, input=text, text=True, timeout=timeout_ms / 1000, check=False)
    except subprocess.TimeoutExpired:
        return job, "timed_out"
    return job, "failed" if done.returncode else "done"


def work(queue: str, timeout_ms: str, *program: str) -> None:
    """Retry what was running when the last worker died, then run what is queued, then end."""
    db = open_queue(queue)
    db.execute("UPDATE jobs SET state = 'queued' WHERE state = 'running'")
    with ThreadPoolExecutor(4) as pool:
        while jobs := db.execute(TAKE).fetchall():
            for job, state in pool.map(lambda one: run([*program], int(timeout_ms), *one), jobs):
                db.execute("UPDATE jobs SET state = ? WHERE id = ?", (state, job))
                print(job, state, time.clock_gettime_ns(time.CLOCK_BOOTTIME), flush=True)


if __name__ == "__main__":
    work(*sys.argv[1:])
