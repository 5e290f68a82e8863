/* Handlers that do not want to die.  usage: adversary MODE STAY TAG [PAGE]  |  adversary list

   Sets up what MODE names, counts in the second word of PAGE that it did, writes "ready\n" to
   stdout; then the leader stays for STAY milliseconds (``-``: until it can read from fd 3; ``!`` in
   front: deaf to SIGTERM) and exits 7. Every other process would live for 30 s and beats in the
   first word of PAGE, which is shared memory. TAG is for whoever looks through /proc.

   A MODE of ``?`` is read from stdin, as is then the page: {"mode": ..., "page": ...}.

   What a sandbox refuses, an adversary goes without: it never gives up. */
#include "adversary.h"

#include <time.h>

enum { LIFE_S = 30 };
static volatile unsigned long nothing[2], *page = nothing;
static double deadline;
static char **words; /* as given, for `again` */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

void beat(void) { __sync_fetch_and_add(page, 1); }
int is_set_up(void) { return page[1] != 0; }
int time_left(void) { return now() < deadline; }

void nap(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) && errno == EINTR)
        ;
}

void live(void)
{
    while (time_left()) {
        beat();
        nap(10);
    }
    _exit(0);
}

void child(life *what)
{
    if (fork() == 0) {
        what();
        _exit(0);
    }
}

void daemonized(life *what)
{
    pid_t middle = fork();
    if (middle == 0) {
        setsid();
        child(what);
        _exit(0);
    }
    waitpid(middle, NULL, 0);
}

void all_signals(void (*handler)(int))
{
    for (int s = 1; s < 65; s++)
        signal(s, handler);
}

void again(const char *mode)
{
    char until[32];
    snprintf(until, sizeof until, "%.3f", deadline);
    execl("/proc/self/exe", words[0], mode, until, words[3], words[4], (char *)NULL);
    live();
}

static void rest_of_a_life(const char *mode)
{
    deadline = atof(words[2]);
    beat();
    nap(1);
    if (!time_left())
        _exit(0);
    if (strcmp(mode, "+comet") == 0 && fork() > 0)
        _exit(0);
    again(mode);
}

static const struct mode *const tables[] = {forks, signals, holds, kernel, NULL};

static const struct mode *find(const char *name)
{
    for (int i = 0; tables[i]; i++)
        for (const struct mode *m = tables[i]; m->name; m++)
            if (strcmp(m->name, name) == 0)
                return m;
    return NULL;
}

static void list(void)
{
    for (int i = 0; tables[i]; i++)
        for (const struct mode *m = tables[i]; m->name; m++)
            puts(m->name);
}

static void *stay(void *given)
{
    const char *how = given;
    char go;
    if (*how == '-')
        _exit(read(3, &go, 1) == 1 ? 7 : 8);
    nap(atol(how));
    _exit(7);
}

/* The text that follows a key: enough of JSON for two words without escapes. */
static char *member(char *text, const char *key)
{
    char *at = strstr(text, key);
    strtok(at ? at + strlen(key) : text, "\"");
    return strtok(NULL, "\"");
}

static void read_stdin(char **argv)
{
    static char given[2][4096];
    ssize_t size = read(0, given[0], sizeof given[0] - 1);
    if (size > 0) {
        memcpy(given[1], given[0], sizeof given[0]);
        argv[1] = member(given[0], "\"mode\"");
        argv[4] = member(given[1], "\"page\"");
    }
}

int main(int argc, char **argv)
{
    char *mine[] = {argv[0], argv[1], argv[2], argv[3], argc > 4 ? argv[4] : NULL, NULL};
    if (argc == 4 && strcmp(argv[1], "?") == 0)
        read_stdin(mine);
    if (argc > 3)
        argv = mine;
    words = argv;
    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        list();
        return 0;
    }
    if (argc < 4)
        return 2;
    if (argv[4]) {
        int fd = open(argv[4], O_RDWR);
        page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (page == MAP_FAILED)
            return 3;
        close(fd);
    }
    if (argv[1][0] == '+')
        rest_of_a_life(argv[1]);
    const struct mode *mode = find(argv[1]);
    if (!mode)
        return 2;
    deadline = now() + LIFE_S;
    char *how = argv[2];
    int deaf = *how == '!';
    if (deaf) {
        how++;
        signal(SIGTERM, SIG_IGN);
    }
    mode->set_up();
    if (write(1, "ready\n", 6) != 6)
        return 5;
    page[1] = 1;
    pthread_t other;
    if (strcmp(argv[1], "ghost_leader") == 0 && !pthread_create(&other, NULL, stay, how))
        syscall(SYS_exit, 0); /* this thread only: the process is its other thread from now on */
    if (strcmp(argv[1], "stop_all") == 0 && deaf) {
        kill(-1, SIGSTOP);
        raise(SIGSTOP);
    }
    stay(how);
}
