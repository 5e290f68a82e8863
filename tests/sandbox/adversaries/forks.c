/* Trees of every shape, and processes that are never where one looks for them. */
#include "adversary.h"

static void grandchild(void) { child(live); live(); }
static void in_session(void) { setsid(); live(); }

/* Never the same pid for long: each forks its successor and exits. In bursts, since a crowd of them
   without a pause would only keep one another from running. */
static void comet_of(int in_sessions)
{
    for (int age = 1; time_left(); age++) {
        beat();
        pid_t p = fork();
        if (p > 0)
            _exit(0);
        if (p == 0 && in_sessions)
            setsid();
        if (p < 0 || age % 8 == 0)
            nap(1);
    }
}

static void comet(void) { comet_of(0); }
static void comet_in_session(void) { comet_of(1); }

/* The same, but by falling: each of them would dump core. */
static void crashing(void)
{
    while (time_left()) {
        beat();
        pid_t p = fork();
        if (p > 0)
            abort();
        nap(1);
    }
}

static void fork_to_the_cap(void)
{
    setsid();
    while (time_left()) {
        beat();
        if (fork() < 0)
            nap(5);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}

static void parent_in_d(void)
{
    setsid();
    if (vfork() == 0)
        live();
    _exit(0);
}

static void with_zombies(void)
{
    for (int i = 0; i < 20; i++)
        if (fork() == 0)
            _exit(0);
    live();
}

static void exec_loop(void) { again("+loop"); }
static void exec_comet(void) { again("+comet"); }

static void *thread(void *unused)
{
    while (time_left()) {
        beat();
        nap(20);
    }
    return unused;
}

static void threads(void)
{
    pthread_t one;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (int i = 0; i < 200; i++)
        if (pthread_create(&one, &small, thread, NULL))
            break; /* its cap is lower */
    live();
}

/* Its first thread is gone: ps calls it a zombie, but it lives. */
static void ghost(void)
{
    pthread_t one;
    if (pthread_create(&one, NULL, thread, NULL))
        live();
    syscall(SYS_exit, 0);
}

/* Another thread than the first becomes the whole process by exec. */
static void *exec_from_here(void *unused)
{
    again("+loop");
    return unused;
}

static void thread_exec(void)
{
    pthread_t one;
    pthread_create(&one, NULL, exec_from_here, NULL);
    live();
}

static void a_tree(void) { child(grandchild); }
static void a_session(void) { child(in_session); }
static void a_daemon(void) { daemonized(live); }
static void a_subreaper(void) { prctl(PR_SET_CHILD_SUBREAPER, 1); daemonized(live); }
static void some(int count, life *what)
{
    while (count--)
        child(what);
}
static void comets(void) { some(3, comet); }
static void comets_in_sessions(void) { some(3, comet_in_session); }
static void twelve_comets(void) { some(12, comet_in_session); }
static void crash_comets(void) { some(2, crashing); }
static void a_storm(void) { child(fork_to_the_cap); }
static void a_vfork_parent(void) { child(parent_in_d); }
static void zombies(void) { child(with_zombies); daemonized(with_zombies); }
static void exec_loops(void) { child(exec_loop); daemonized(exec_loop); }
static void exec_comets(void) { child(exec_comet); daemonized(exec_comet); }
static void many_threads(void) { child(threads); }
static void ghosts(void) { child(ghost); daemonized(ghost); }
static void thread_execs(void) { child(thread_exec); }

const struct mode forks[] = {
    {"tree", a_tree},
    {"setsid", a_session},
    {"daemon", a_daemon},
    {"subreaper", a_subreaper},
    {"comet", comets},
    {"comet_setsid", comets_in_sessions},
    {"comet12", twelve_comets},
    {"crash_comet", crash_comets},
    {"storm", a_storm},
    {"vfork_parent", a_vfork_parent},
    {"zombies", zombies},
    {"exec_loop", exec_loops},
    {"exec_comet", exec_comets},
    {"threads", many_threads},
    {"ghost", ghosts},
    {"ghost_leader", a_tree},
    {"thread_exec", thread_execs},
    {0},
};
