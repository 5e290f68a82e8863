/* They turn to what the kernel offers: tracing, namespaces, cgroups, /proc. */
#include "adversary.h"

#include <dirent.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/stat.h>

static void traced_by_a_child(long options)
{
    pid_t tracee = fork();
    if (tracee == 0) {
        setsid();
        live();
    }
    setsid();
    if (ptrace(PTRACE_SEIZE, tracee, 0, options) == 0 && options == 0)
        ptrace(PTRACE_INTERRUPT, tracee, 0, 0); /* and never continued */
    live();
}

static void tracer(void) { traced_by_a_child(0); }
/* A tracee that stops once more while it dies of SIGKILL. */
static void exit_tracer(void) { traced_by_a_child(PTRACE_O_TRACEEXIT | PTRACE_O_TRACEFORK); }

static void against_init(void)
{
    setsid();
    while (time_left()) {
        beat();
        ptrace(PTRACE_SEIZE, 1, 0, PTRACE_O_EXITKILL);
        ptrace(PTRACE_ATTACH, 1, 0, 0);
        ptrace(PTRACE_INTERRUPT, 1, 0, 0);
        nap(5);
    }
}

static void in_namespaces(void)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0 && fork() == 0) { /* a PID 1 of its own */
        setsid();
        daemonized(live);
        all_signals(SIG_IGN);
        live();
    }
    daemonized(live);
    live();
}

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, text, strlen(text)) < 0)
        beat();
    close(fd);
}

static void elsewhere(void)
{
    put("/sys/fs/cgroup/cgroup.procs", "0");
    put("/sys/fs/cgroup/unified/cgroup.procs", "0");
    if (mkdir("/tmp/cgroup", 0700) == 0)
        put("/tmp/cgroup/cgroup.procs", "0");
    if (unshare(CLONE_NEWUSER | CLONE_NEWCGROUP | CLONE_NEWNS) == 0)
        put("/proc/self/setgroups", "deny");
    live();
}

static void write_to(const char *pid)
{
    static const char *const files[] = {
        "oom_score_adj", "comm",       "clear_refs", "coredump_filter", "timerslack_ns",
        "autogroup",     "loginuid",   "mem",        "attr/current",    "uid_map",
        "setgroups",     "latency",    "sched",      "timens_offsets",
    };
    char path[300];
    for (unsigned i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "/proc/%s/%s", pid, files[i]);
        put(path, i % 2 ? "1" : "1000");
    }
}

static void in_proc(void)
{
    while (time_left()) {
        DIR *proc = opendir("/proc");
        struct dirent *entry;
        while (proc && (entry = readdir(proc)))
            if (*entry->d_name >= '0' && *entry->d_name <= '9')
                write_to(entry->d_name);
        if (proc)
            closedir(proc);
        beat();
        nap(5);
    }
}

static void a_held_tracee(void) { child(tracer); }
static void a_dying_tracee(void) { child(exit_tracer); }
static void tracing_init(void) { daemonized(against_init); }
static void nested(void) { child(in_namespaces); }
static void moved(void) { child(elsewhere); daemonized(elsewhere); }
static void proc_files(void) { child(in_proc); daemonized(live); }

const struct mode kernel[] = {
    {"ptrace_stopped", a_held_tracee},
    {"ptrace_exit", a_dying_tracee},
    {"ptrace_init", tracing_init},
    {"nested_namespaces", nested},
    {"other_cgroup", moved},
    {"proc_files", proc_files},
    {0},
};
