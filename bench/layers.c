/*
 * What the kernel alone takes for a contained /bin/true: ./layers COUNT CONTAINED prints the
 * microseconds of processor time of one run, all its processes together.
 *
 * With CONTAINED 1 each is born into namespaces of its own, mounts /proc, /run and /tmp, gives up
 * what an init gives up and enforces eight Landlock rules and a filter of 275 instructions, which
 * is what an attempt has. It builds no root and has nobody to report to: a floor, not a sandbox.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/sched.h>

enum { RULES = 8, INSTRUCTIONS = 275, CREATE_RULESET = 444, ADD_RULE, RESTRICT_SELF };

static void must(int good, const char *what)
{
    if (!good) {
        perror(what);
        _exit(1);
    }
}

static int uid, gid;

static void put(const char *file, const char *format, int number)
{
    char text[64];
    int size = snprintf(text, sizeof text, format, number), fd = open(file, O_WRONLY | O_CLOEXEC);
    must(fd >= 0 && write(fd, text, size) == size, file);
    close(fd);
}

static void map_ids(void)
{
    put("/proc/self/setgroups", "deny", 0);
    put("/proc/self/uid_map", "65534 %d 1", uid);
    put("/proc/self/gid_map", "65534 %d 1", gid);
}

static void mounts(void)
{
    unsigned long flags = MS_NOSUID | MS_NODEV;
    must(!mount(0, "/", 0, MS_REC | MS_PRIVATE, 0), "private");
    must(!mount("proc", "/proc", "proc", flags | MS_NOEXEC, 0), "proc");
    must(!mount("tmpfs", "/run", "tmpfs", flags, "mode=755,size=1m,nr_inodes=1k"), "run");
    must(!mount("tmpfs", "/tmp", "tmpfs", flags, "mode=1777,size=64m,nr_inodes=16k"), "tmp");
    must(!mkdir("/tmp/home", 0700) && !mkdir("/run/credentials", 0700), "directories");
}

static void gives_up(void)
{
    struct rlimit one = {1, 1};
    for (int at = 0; at < 9; at++)
        must(!setrlimit(RLIMIT_CORE, &one), "limit");
    for (int capability = 0; !prctl(PR_CAPBSET_DROP, capability, 0, 0, 0); capability++)
        ;
    must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
}

static void landlock(void)
{
    static const char *const paths[RULES] = {
        "/", "/tmp", "/run", "/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero",
    };
    struct { uint64_t files, net, scoped; } all = {(1 << 13) - 1, 0, 0};
    int ruleset = syscall(CREATE_RULESET, &all, 8, 0);
    if (ruleset < 0)
        return; /* this kernel has none: no sandbox here has it */
    for (int at = 0; at < RULES; at++) {
        struct { uint64_t allowed; int parent; } __attribute__((packed)) rule = {
            at < 3 ? 13 : 4, open(paths[at], O_PATH | O_CLOEXEC)};
        must(!syscall(ADD_RULE, ruleset, 1, &rule, 0), paths[at]);
        close(rule.parent);
    }
    must(!syscall(RESTRICT_SELF, ruleset, 0), "restrict");
    close(ruleset);
}

static void filter(void)
{
    static struct sock_filter code[INSTRUCTIONS];
    struct sock_fprog program = {INSTRUCTIONS, code};
    code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    for (int at = 1; at < INSTRUCTIONS - 1; at++)
        code[at] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 100000 + at, 0, 0);
    code[INSTRUCTIONS - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    must(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), "filter");
}

static void run_once(int contained)
{
    static char *argv[] = {"/bin/true", 0}, *env[] = {0};
    struct clone_args how = {.exit_signal = SIGCHLD};
    if (contained)
        how.flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWCGROUP;
    int status, pid = syscall(SYS_clone3, &how, sizeof how);
    must(pid >= 0, "clone3");
    if (!pid) {
        pid_t program;
        if (contained) {
            map_ids();
            mounts();
            gives_up();
            landlock();
            filter();
        }
        must(!posix_spawn(&program, argv[0], 0, 0, argv, env), "spawn");
        _exit(waitpid(program, &status, 0) != program || status);
    }
    if (waitpid(pid, &status, 0) != pid || status)
        exit(1);
}

static double spent_us(void)
{
    double total = 0;
    for (int who = 0; who < 2; who++) {
        struct rusage used;
        getrusage(who ? RUSAGE_CHILDREN : RUSAGE_SELF, &used);
        total += used.ru_utime.tv_sec * 1e6 + used.ru_utime.tv_usec;
        total += used.ru_stime.tv_sec * 1e6 + used.ru_stime.tv_usec;
    }
    return total;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int count = atoi(argv[1]), contained = atoi(argv[2]);
    uid = geteuid();
    gid = getegid();
    double before = spent_us();
    for (int at = 0; at < count; at++)
        run_once(contained);
    printf("%.0f\n", (spent_us() - before) / count);
    return 0;
}
