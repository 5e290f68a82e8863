/* A disk that does not answer while a file exists: preloaded into the daemon under test.
 *
 * DISK_HOLD names the file; while it is there, fdatasync and fsync wait, and the first to wait
 * makes a second file of that name with ".reached" behind it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_for_the_disk(void) {
    const char *hold = getenv("DISK_HOLD");
    char reached[PATH_MAX];

    if (hold == NULL) return;
    snprintf(reached, sizeof reached, "%s.reached", hold);
    while (access(hold, F_OK) == 0) {
        int fd = open(reached, O_CREAT | O_CLOEXEC | O_WRONLY, 0600);
        if (fd >= 0) close(fd);
        usleep(1000);
    }
}

int fdatasync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_for_the_disk();
    return real(fd);
}

int fsync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_for_the_disk();
    return real(fd);
}
