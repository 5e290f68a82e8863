/* They hold on to something, or something holds them. */
#include "adversary.h"

#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { FDS = 4, HOG = 8 << 20 };

static void closed(void)
{
    syscall(SYS_close_range, 0u, ~0u, 0u);
    live();
}

/* Its descriptors are in flight in sockets that hold one another: nobody reads them. */
static void parked(void)
{
    int pair[2], given[FDS] = {0, 1, 2, 3};
    char space[CMSG_SPACE(sizeof given)] = {0}, byte = 'x';
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = space,
                             .msg_controllen = sizeof space};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof given);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        live();
    memcpy(CMSG_DATA(head), given, sizeof given);
    sendmsg(pair[0], &message, 0);
    given[0] = pair[0];
    given[1] = pair[1];
    memcpy(CMSG_DATA(head), given, sizeof given);
    sendmsg(pair[0], &message, 0);
    sendmsg(pair[1], &message, 0);
    closed();
}

static void flooding(void)
{
    static char much[4096];
    memset(much, 'f', sizeof much);
    while (!is_set_up())
        nap(1);
    while (time_left()) {
        beat();
        if (write(1, much, sizeof much) < 0 || write(2, much, sizeof much) < 0)
            nap(10);
        nap(1);
    }
}

static void hog(void)
{
    char *memory = mmap(NULL, HOG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int file = open("/tmp/hog", O_CREAT | O_RDWR, 0600);
    if (memory == MAP_FAILED)
        live();
    memset(memory, 1, HOG);
    if (write(file, memory, HOG) < 0)
        beat();
    mlock(memory, HOG);
    while (time_left()) {
        beat();
        for (long at = 0; at < HOG; at += 1 << 20)
            memory[at]++;
        nap(10);
    }
}

static void at_a_fifo(void)
{
    mkfifo("/tmp/fifo", 0600);
    for (;;)
        open("/tmp/fifo", O_RDONLY);
}

static void at_a_lock(void)
{
    for (int i = 0; i < 2; i++) { /* an open file of its own each: the second waits for the first */
        int file = open("/tmp/lock", O_CREAT | O_RDWR, 0600);
        flock(file, LOCK_EX);
    }
    live();
}

static void at_a_futex(void)
{
    unsigned word = 0;
    for (;;)
        syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void at_a_pipe(void)
{
    int ends[2];
    static char much[1 << 20];
    if (pipe(ends) == 0)
        for (;;)
            if (write(ends[1], much, sizeof much) < 0)
                live();
    live();
}

static void at_a_queue(void)
{
    char message[64];
    int queue = msgget(IPC_PRIVATE, 0600);
    for (;;)
        if (msgrcv(queue, message, 8, 0, 0) < 0 && errno != EINTR)
            live();
}

/* Touches a page that nobody will ever bring. */
static void at_a_fault(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    struct uffdio_register range = {.range = {(unsigned long)memory, 4096},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &range) == 0)
        *(volatile char *)memory = 1;
    live();
}

/* The kernel walks this list when the process dies; it never ends. */
static void robust(void)
{
    static struct robust_list_head head;
    static struct robust_list loop[2];
    loop[0].next = &loop[1];
    loop[1].next = &loop[0];
    head.list.next = &loop[0];
    head.futex_offset = -4096;
    head.list_op_pending = (struct robust_list *)8;
    syscall(SYS_set_robust_list, &head, sizeof head);
    live();
}

static void set_id_program(void)
{
    int ends[2];
    if (pipe(ends) == 0)
        dup2(ends[0], 0); /* where nobody answers, and there is no end of file */
    execl("/usr/bin/passwd", "passwd", (char *)NULL);
    execl("/bin/su", "su", (char *)NULL);
    live();
}

static void closing(void) { daemonized(closed); child(closed); }
static void holding(void) { daemonized(live); } /* stdout, stderr and fd 3 */
static void parking(void) { daemonized(parked); child(live); }
static void a_flood(void) { child(flooding); }
static void a_hog(void) { child(hog); }
static void blocked(void)
{
    life *all[] = {at_a_fifo, at_a_lock, at_a_futex, at_a_pipe, at_a_queue, at_a_fault, live};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        daemonized(all[i]);
}
static void robust_lists(void) { child(robust); daemonized(robust); }
static void set_id(void) { child(set_id_program); daemonized(set_id_program); child(live); }

const struct mode holds[] = {
    {"close_fds", closing},
    {"holder", holding},
    {"parked_fds", parking},
    {"flood", a_flood},
    {"hog", a_hog},
    {"blocked", blocked},
    {"robust_futex", robust_lists},
    {"set_id", set_id},
    {0},
};
