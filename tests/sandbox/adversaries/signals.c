/* Deaf, stopped, noisy. */
#include "adversary.h"

#include <sys/time.h>
#include <time.h>

static void deaf(void) { all_signals(SIG_IGN); live(); }

static void blocking(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    live();
}

static void stopped(void) { setsid(); raise(SIGSTOP); live(); }

static void stop_again(int unused)
{
    (void)unused;
    raise(SIGSTOP);
}

/* A stopped process group whose leader is gone: the kernel continues it with SIGHUP, once. */
static void orphaned_group(void)
{
    setpgid(0, 0);
    for (int i = 0; i < 3; i++)
        if (fork() == 0) {
            signal(SIGHUP, stop_again);
            signal(SIGCONT, stop_again);
            raise(SIGTSTP);
            live();
        }
    nap(5);
}

static void signal_init(void)
{
    while (time_left()) {
        beat();
        for (int s = 1; s < 65; s++) {
            union sigval value = {0};
            kill(1, s);
            sigqueue(1, s, value);
            syscall(SYS_tkill, 1, s);
        }
        nap(2);
    }
}

static void quiet(int unused) { (void)unused; }

static void timers(void)
{
    struct itimerval often = {{0, 1000}, {0, 1000}};
    struct itimerspec seldom = {{0, 2000000}, {0, 2000000}};
    all_signals(quiet);
    setitimer(ITIMER_REAL, &often, NULL);
    setitimer(ITIMER_VIRTUAL, &often, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    for (int i = 0; i < 32; i++) {
        timer_t timer;
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + i % 16};
        if (timer_create(CLOCK_MONOTONIC, &event, &timer) == 0)
            timer_settime(timer, 0, &seldom, NULL);
    }
    alarm(1);
    while (time_left()) {
        beat();
        pause();
    }
}

static void spin(void)
{
    setsid();
    for (long turn = 1; time_left(); turn++) {
        beat();
        if (turn % 100000 == 0)
            nap(2);
    }
}

static void disarmed(void) { prctl(PR_SET_PDEATHSIG, 0); setsid(); live(); }
static void armed_for_nothing(void)
{
    prctl(PR_SET_PDEATHSIG, SIGCONT);
    prctl(PR_SET_DUMPABLE, 0);
    live();
}

static void a_deaf_tree(void)
{
    daemonized(deaf);
    daemonized(blocking);
    all_signals(SIG_IGN);
}
static void a_stopped_tree(void) { daemonized(stopped); child(stopped); }
static void a_stopped_group(void) { child(orphaned_group); child(live); }
static void noise(void) { child(signal_init); }
static void ringing(void) { child(timers); }
static void two_spinners(void) { daemonized(spin); daemonized(spin); }
static void unwatched(void)
{
    signal(SIGCHLD, SIG_IGN);
    child(live);
    daemonized(live);
}
static void without_pdeathsig(void) { daemonized(disarmed); child(armed_for_nothing); }
static void kill_the_others(void)
{
    child(live);
    daemonized(live);
    signal(SIGTERM, SIG_IGN);
    kill(-1, SIGTERM); /* all but PID 1 and itself */
    kill(-1, SIGKILL);
    child(live);
}

const struct mode signals[] = {
    {"deaf", a_deaf_tree},
    {"stopped", a_stopped_tree},
    {"stop_all", a_deaf_tree}, /* main.c stops them, and a leader that is to be deaf */
    {"stopped_group", a_stopped_group},
    {"signal_init", noise},
    {"timers", ringing},
    {"spin", two_spinners},
    {"sigchld_ignored", unwatched},
    {"disarmed", without_pdeathsig},
    {"killall", kill_the_others},
    {0},
};
