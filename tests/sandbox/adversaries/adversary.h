/* What all adversaries share: see main.c for how one is run. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct mode {
    const char *name;
    void (*set_up)(void);
};
extern const struct mode forks[], signals[], holds[], kernel[];

typedef void life(void); /* what a process does until it is killed */

void beat(void);          /* shows that somebody is alive */
int is_set_up(void);      /* the leader has said that it is ready */
void nap(long ms);
int time_left(void);      /* nothing outlives a broken test for ever */
void live(void);
void child(life *what);   /* a fork that nobody waits for */
void daemonized(life *what); /* forked twice, the middle one gone: an orphan in its own session */
void all_signals(void (*handler)(int));
void again(const char *mode); /* exec this program anew, as the rest of a life */
