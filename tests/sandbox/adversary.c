/* Handlers that do not want to die.  usage: adversary MODE STAY TAG [HEARTBEAT]

   Sets up what MODE names, writes "ready\n" to stdout, then the leader stays for STAY milliseconds
   (``-``: until it can read from fd 3) and exits 7.  Every other process would live for 30 s (an absolute deadline, so that nothing
   outlives a broken test for ever) and beats in the shared page of HEARTBEAT.  TAG is for whoever
   looks through /proc. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long *beats;
static unsigned long nobody_looks;
static double deadline;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void nap(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) && errno == EINTR)
        ;
}

static void live(void)
{
    while (now() < deadline) {
        __sync_fetch_and_add(beats, 1);
        nap(5);
    }
    _exit(0);
}

static void child(void (*life)(void))
{
    if (fork() == 0) {
        life();
        _exit(0);
    }
}

static void grandchild(void) { child(live); live(); }
static void in_session(void) { setsid(); live(); }
static void deaf(void)
{
    for (int s = 1; s < 65; s++)
        signal(s, SIG_IGN);
    live();
}
static void stopped(void) { setsid(); raise(SIGSTOP); live(); }

/* Forked twice, the middle one gone: an orphan in a session of its own. */
static void daemonized(void (*life)(void))
{
    if (fork() == 0) {
        setsid();
        child(life);
        _exit(0);
    }
    wait(NULL);
}

/* Never the same pid for long: each forks its successor and exits. */
static void comet(void)
{
    while (now() < deadline) {
        __sync_fetch_and_add(beats, 1);
        pid_t p = fork();
        if (p > 0)
            _exit(0);
        if (p < 0)
            nap(1);
    }
    _exit(0);
}
static void comet_in_session(void)
{
    while (now() < deadline) {
        __sync_fetch_and_add(beats, 1);
        pid_t p = fork();
        if (p > 0)
            _exit(0);
        if (p == 0)
            setsid();
        else
            nap(1);
    }
    _exit(0);
}

static void storm(void)
{
    setsid();
    while (now() < deadline) {
        __sync_fetch_and_add(beats, 1);
        if (fork() < 0)
            nap(2);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
    _exit(0);
}

static void disarmed(void) { prctl(PR_SET_PDEATHSIG, 0); in_session(); }

static int is(const char *a, const char *b) { return strcmp(a, b) == 0; }

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    const char *mode = argv[1];
    long stay = atol(argv[2]);
    deadline = now() + 30;
    beats = &nobody_looks;
    if (argc > 4) {
        int fd = open(argv[4], O_RDWR);
        if (fd < 0)
            return 3;
        beats = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (beats == MAP_FAILED)
            return 4;
        close(fd);
    }
    int code = 7;
    if (is(mode, "tree"))
        child(grandchild);
    else if (is(mode, "setsid"))
        child(in_session);
    else if (is(mode, "daemon"))
        daemonized(live);
    else if (is(mode, "comet"))
        for (int i = 0; i < 3; i++)
            child(comet);
    else if (is(mode, "comet_setsid"))
        for (int i = 0; i < 3; i++)
            child(comet_in_session);
    else if (is(mode, "storm"))
        child(storm);
    else if (is(mode, "stopped"))
        daemonized(stopped);
    else if (is(mode, "deaf")) {
        daemonized(deaf);
        for (int s = 1; s < 65; s++)
            signal(s, SIG_IGN);
    } else if (is(mode, "subreaper")) {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        daemonized(live);
    } else if (is(mode, "holder"))
        daemonized(live); /* and it holds stdout, stderr and fd 3 */
    else if (is(mode, "disarmed"))
        daemonized(disarmed);
    else if (is(mode, "killall")) {
        child(live);
        daemonized(live);
        signal(SIGTERM, SIG_IGN);
        if (kill(-1, SIGTERM) || kill(-1, SIGKILL)) /* all but PID 1 and itself */
            code = 9;
        child(live);
    } else if (is(mode, "signal_init")) {
        for (int s = 1; s < 65; s++)
            kill(1, s);
        child(live);
    } else
        return 2;
    if (write(1, "ready\n", 6) != 6)
        return 5;
    char go;
    if (is(argv[2], "-"))
        code = read(3, &go, 1) == 1 ? code : 8;
    else
        nap(stay);
    _exit(code);
}
