/* Tries what a sandbox refuses, one attempt in a child process each.

   usage: attempts NAME...   ("-" lists the names)

   A line for each: the name, then `open` when the call did what it must not, else the name of the
   errno that refused it, or of the signal that ended the attempt. Nothing here does harm where it is
   let through: whatever would change the host is asked for with arguments that the kernel turns
   down after it has looked whether the caller may. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/kexec.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <grp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct row { const char *name; long (*attempt)(void); };
/* Each attempt registers itself: the linker puts the rows side by side. */
extern const struct row __start_attempts[], __stop_attempts[];
#define TRY(name)                                                                        \
    static long try_##name(void);                                                        \
    static const struct row row_##name                                                   \
        __attribute__((used, section("attempts"), aligned(sizeof(struct row)))) = {#name, try_##name}; \
    static long try_##name(void)
#define INIT 1

static long is_open(long result) { return result < 0 ? -errno : 0; }

/* --- namespaces and mounts */
TRY(unshare_user) { return is_open(unshare(CLONE_NEWUSER)); }
TRY(unshare_mount) { return is_open(unshare(CLONE_NEWNS)); }
TRY(unshare_network) { return is_open(unshare(CLONE_NEWNET)); }
TRY(unshare_pid) { return is_open(unshare(CLONE_NEWPID)); }
TRY(unshare_cgroup) { return is_open(unshare(CLONE_NEWCGROUP)); }
TRY(unshare_time) { return is_open(unshare(0x80)); }
static long forked(long pid) {
    if (pid == 0) _exit(0);
    if (pid > 0) waitpid(pid, NULL, __WALL);
    return is_open(pid);
}
TRY(clone_user) { return forked(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)); }
TRY(clone3_user) {
    uint64_t args[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
    return forked(syscall(SYS_clone3, args, sizeof args));
}
TRY(clone3_plain) {
    uint64_t args[11] = {0, 0, 0, 0, SIGCHLD};
    return forked(syscall(SYS_clone3, args, sizeof args));
}
TRY(setns_own) {
    int fd = open("/proc/self/ns/uts", O_RDONLY);
    return fd < 0 ? -errno : is_open(setns(fd, 0));
}
TRY(setns_init) {
    int fd = syscall(SYS_pidfd_open, INIT, 0);
    return fd < 0 ? -errno : is_open(setns(fd, CLONE_NEWNS | CLONE_NEWUSER));
}
TRY(mount_tmpfs) { return is_open(mount("tmpfs", "/tmp", "tmpfs", 0, NULL)); }
TRY(mount_bind) { return is_open(mount("/tmp", "/tmp", NULL, MS_BIND, NULL)); }
TRY(mount_proc) { return is_open(mount("proc", "/tmp", "proc", 0, NULL)); }
TRY(remount) { return is_open(mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL)); }
TRY(propagation) { return is_open(mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL)); }
static void make_it_a_mount(void) { (void)mount("tmpfs", "/tmp", "tmpfs", 0, NULL); }
TRY(unmount) {
    make_it_a_mount();
    return is_open(umount2("/tmp", MNT_DETACH));
}
TRY(open_tree_clone) { return is_open(syscall(428, AT_FDCWD, "/tmp", 1)); }
TRY(move_mount) { return is_open(syscall(429, AT_FDCWD, "/tmp", AT_FDCWD, "/tmp", 0)); }
TRY(fsopen) { return is_open(syscall(430, "tmpfs", 0)); }
TRY(fspick) {
    make_it_a_mount();
    return is_open(syscall(433, AT_FDCWD, "/tmp", 0));
}
TRY(mount_setattr) {
    uint64_t attributes[4] = {0};
    return is_open(syscall(442, AT_FDCWD, "/tmp", 0, attributes, sizeof attributes));
}
TRY(open_tree_attr) {
    uint64_t attributes[4] = {0};
    return is_open(syscall(467, AT_FDCWD, "/tmp", 1, attributes, sizeof attributes));
}
TRY(pivot_root) { return is_open(syscall(SYS_pivot_root, "/tmp", "/tmp")); }
TRY(change_root) { return is_open(chroot("/tmp")); }
TRY(set_hostname) { return is_open(sethostname("mine", 4)); }
TRY(set_domain) { return is_open(setdomainname("mine", 4)); }
TRY(device_node) {
    unlink("/tmp/node");
    return is_open(mknod("/tmp/node", S_IFBLK | 0600, makedev(7, 0)));
}

/* --- ids and capabilities */
TRY(become_root) { return is_open(setresuid(0, 0, 0)); }
TRY(become_roots_group) { return is_open(setresgid(0, 0, 0)); }
TRY(become_another) { return is_open(setresuid(4242, 4242, 4242)); }
TRY(set_groups) {
    gid_t none = 0;
    return is_open(setgroups(1, &none));
}
TRY(raise_capability) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{1 << CAP_SYS_ADMIN, 1 << CAP_SYS_ADMIN, 0}};
    return is_open(syscall(SYS_capset, &head, data));
}
TRY(drop_no_new_privs) { return is_open(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0)); }
TRY(ambient_capability) { return is_open(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 7, 0, 0)); }

/* --- other processes; pid 1 is the sandbox's init */
TRY(trace_init) { return is_open(ptrace(PTRACE_SEIZE, INIT, 0, 0)); }
TRY(trace_me) { return is_open(ptrace(PTRACE_TRACEME, 0, 0, 0)); }
TRY(read_memory_of_init) {
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)0x400000, 1};
    return is_open(process_vm_readv(INIT, &here, 1, &there, 1, 0));
}
TRY(write_memory_of_init) {
    char byte = 0;
    struct iovec here = {&byte, 1}, there = {(void *)0x400000, 1};
    return is_open(process_vm_writev(INIT, &here, 1, &there, 1, 0));
}
TRY(compare_with_init) { return is_open(syscall(SYS_kcmp, getpid(), INIT, 2, 0, 0)); }
TRY(take_fd_of_init) {
    int fd = syscall(SYS_pidfd_open, INIT, 0);
    return fd < 0 ? -errno : is_open(syscall(438, fd, 0, 0));
}
TRY(advise_init) {
    struct iovec there = {(void *)0x400000, 4096};
    int fd = syscall(SYS_pidfd_open, INIT, 0);
    return fd < 0 ? -errno : is_open(syscall(440, fd, &there, 1, 21, 0));
}
TRY(release_init) {
    int fd = syscall(SYS_pidfd_open, INIT, 0);
    return fd < 0 ? -errno : is_open(syscall(448, fd, 0));
}
TRY(limit_init) {
    struct rlimit few = {256, 256};
    return is_open(prlimit(INIT, RLIMIT_NOFILE, &few, NULL));
}
TRY(limit_myself) {
    struct rlimit few = {64, 64};
    return is_open(prlimit(0, RLIMIT_NOFILE, &few, NULL));
}
TRY(raise_own_limit) {
    struct rlimit more = {1 << 20, 1 << 20};
    return is_open(prlimit(0, RLIMIT_NOFILE, &more, NULL));
}
TRY(nice_init) { return is_open(setpriority(PRIO_PROCESS, INIT, 19)); }
TRY(nice_user) { return is_open(setpriority(PRIO_USER, getuid(), 19)); }
TRY(nice_myself) { return is_open(setpriority(PRIO_PROCESS, 0, 19)); }
TRY(schedule_init) {
    struct sched_param none = {0};
    return is_open(sched_setscheduler(INIT, SCHED_IDLE, &none));
}
TRY(schedule_attributes_of_init) {
    struct { uint32_t size, policy; uint64_t rest[6]; } attributes = {56, SCHED_IDLE, {0}};
    return is_open(syscall(SYS_sched_setattr, INIT, &attributes, 0));
}
TRY(parameters_of_init) {
    struct sched_param none = {0};
    return is_open(sched_setparam(INIT, &none));
}
TRY(pin_init) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    return is_open(sched_setaffinity(INIT, sizeof one, &one));
}
TRY(io_priority_of_init) { return is_open(syscall(SYS_ioprio_set, 1, INIT, 3 << 13)); }
TRY(io_priority_of_user) { return is_open(syscall(SYS_ioprio_set, 3, getuid(), 3 << 13)); }
TRY(migrate_init) {
    unsigned long nodes = 1;
    return is_open(syscall(SYS_migrate_pages, INIT, 64, &nodes, &nodes));
}
TRY(move_pages_of_init) { return is_open(syscall(SYS_move_pages, INIT, 0, 0, 0, 0, 0)); }
TRY(become_realtime) {
    struct sched_param one = {1};
    return is_open(sched_setscheduler(0, SCHED_FIFO, &one));
}

/* --- parts of the kernel that no handler needs */
TRY(io_uring_setup) {
    struct io_uring_params parameters = {0};
    return is_open(syscall(425, 1, &parameters));
}
TRY(io_uring_enter) { return is_open(syscall(426, 0, 0, 0, 0, 0, 0)); }
TRY(io_uring_register) { return is_open(syscall(427, 0, 0, 0, 0)); }
TRY(bpf_map) {
    union bpf_attr map = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    return is_open(syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof map));
}
TRY(perf_event) {
    struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE, .size = sizeof event,
        .config = PERF_COUNT_SW_CPU_CLOCK, .exclude_kernel = 1, .exclude_hv = 1};
    return is_open(syscall(SYS_perf_event_open, &event, 0, -1, -1, 0));
}
TRY(userfaultfd) { return is_open(syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY)); }
TRY(session_keyring) {
    return is_open(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
}
TRY(read_session_keyring) {
    char content[256];
    return is_open(syscall(SYS_keyctl, KEYCTL_READ, KEY_SPEC_SESSION_KEYRING, content, sizeof content));
}
TRY(user_keyring) {
    return is_open(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1));
}
TRY(add_key) {
    return is_open(syscall(SYS_add_key, "user", "effectd", "x", 1, KEY_SPEC_PROCESS_KEYRING));
}
TRY(request_key) { return is_open(syscall(SYS_request_key, "user", "effectd", NULL, 0)); }
TRY(load_module) { return is_open(syscall(SYS_finit_module, -1, "", 0)); }
TRY(unload_module) { return is_open(syscall(SYS_delete_module, "no-such-module", O_NONBLOCK)); }
TRY(kexec) { return is_open(syscall(SYS_kexec_load, 0, 1 << 20, NULL, 0)); }
TRY(reboot) { return is_open(syscall(SYS_reboot, 1, 2, 3, NULL)); }
TRY(swap_on) { return is_open(syscall(SYS_swapon, "/nowhere", 0)); }
TRY(swap_off) { return is_open(syscall(SYS_swapoff, "/nowhere")); }
TRY(set_clock) {
    struct timespec never = {0, -1};
    return is_open(syscall(SYS_clock_settime, CLOCK_REALTIME, &never));
}
TRY(set_time_of_day) {
    struct timeval never = {0, -1};
    return is_open(syscall(SYS_settimeofday, &never, NULL));
}
TRY(adjust_clock) {
    struct timex change = {.modes = ADJ_TICK, .tick = 1};
    return is_open(adjtimex(&change));
}
TRY(read_clock_state) {
    struct timex change = {.modes = 0};
    return is_open(adjtimex(&change));
}
TRY(kernel_log) { return is_open(syscall(SYS_syslog, 10, NULL, 0)); }
TRY(accounting) { return is_open(syscall(SYS_acct, "/nowhere")); }
TRY(quota) { return is_open(syscall(SYS_quotactl, 0x800007 << 8, NULL, 0, NULL)); }
TRY(hang_up) { return is_open(syscall(SYS_vhangup)); }
TRY(name_to_handle) {
    struct file_handle *handle = calloc(1, sizeof *handle + 128);
    int mount_id;
    handle->handle_bytes = 128;
    return is_open(name_to_handle_at(AT_FDCWD, "/usr", handle, &mount_id, 0));
}
TRY(open_by_handle) {
    struct file_handle *handle = calloc(1, sizeof *handle + 128);
    handle->handle_bytes = 8;
    handle->handle_type = 1;
    int root = open("/usr", O_RDONLY | O_DIRECTORY);
    return is_open(open_by_handle_at(root, handle, O_RDONLY));
}
TRY(fanotify) { return is_open(syscall(SYS_fanotify_init, 0, O_RDONLY)); }
TRY(fanotify_unprivileged) { return is_open(syscall(SYS_fanotify_init, 0x200, O_RDONLY)); }
TRY(secret_memory) { return is_open(syscall(447, 0)); }
TRY(mount_statistics) {
    struct { uint32_t size, spare; uint64_t mount, parameters; } request = {24, 0, -1, 0};
    char answer[512];
    return is_open(syscall(457, &request, answer, sizeof answer, 0));
}
TRY(list_mounts) {
    struct { uint32_t size, spare; uint64_t mount, parameters; } request = {24, 0, -1, 0};
    uint64_t answer[64];
    return is_open(syscall(458, &request, answer, 64, 0));
}
TRY(directory_cookie) {
    char path[64];
    return is_open(syscall(212, 0UL, path, sizeof path));
}
TRY(executable_reads) { return is_open(personality(READ_IMPLIES_EXEC)); }
TRY(no_randomization) { return is_open(personality(ADDR_NO_RANDOMIZE)); }
TRY(ask_personality) { return is_open(personality(0xffffffff)); }
TRY(remap) { return is_open(syscall(216, 0UL, 0UL, 0UL, 0UL, 0UL)); }
TRY(type_into_terminal) {
    char letter = 'x';
    return is_open(ioctl(0, TIOCSTI, &letter));
}
TRY(type_into_terminal_high_bits) {
    char letter = 'x';
    return is_open(syscall(SYS_ioctl, 0, (unsigned long)TIOCSTI | 0xdeadUL << 32, &letter));
}
TRY(console_selection) {
    char code = 2;
    return is_open(ioctl(0, TIOCLINUX, &code));
}
TRY(own_terminal) { return is_open(open("/dev/tty", O_RDWR)); }
TRY(new_terminal) { return is_open(open("/dev/ptmx", O_RDWR)); }
#ifdef __x86_64__
TRY(x32_call) { return is_open(syscall(0x40000000 | SYS_getpid)); }
TRY(i386_call) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");
    if (result < 0) errno = -result;
    return is_open(result < 0 ? -1 : result);
}
TRY(io_ports) { return is_open(syscall(SYS_ioperm, 0x80, 1, 1)); }
TRY(io_level) { return is_open(syscall(SYS_iopl, 3)); }
TRY(segment) {
    char table[16];
    return is_open(syscall(SYS_modify_ldt, 0, table, sizeof table));
}
#endif

/* --- sockets: `open` means that the kernel handed one out */
#define SOCKET(name, family, type, protocol) \
    TRY(name) { return is_open(socket(family, type, protocol)); }
SOCKET(socket_tcp, AF_INET, SOCK_STREAM, 0)
SOCKET(socket_tcp6, AF_INET6, SOCK_STREAM, 0)
SOCKET(socket_udp, AF_INET, SOCK_DGRAM, 0)
SOCKET(socket_route, AF_NETLINK, SOCK_RAW, 0)
SOCKET(socket_unix_stream, AF_UNIX, SOCK_STREAM, 0)
SOCKET(socket_unix_datagram, AF_UNIX, SOCK_DGRAM, 0)
SOCKET(socket_unix_packets, AF_UNIX, SOCK_SEQPACKET, 0)
SOCKET(socket_multipath, AF_INET, SOCK_STREAM, 262)
SOCKET(socket_multipath6, AF_INET6, SOCK_STREAM, 262)
SOCKET(socket_raw, AF_INET, SOCK_RAW, IPPROTO_RAW)
SOCKET(socket_packet, AF_PACKET, SOCK_RAW, 0)
SOCKET(socket_vsock, 40, SOCK_STREAM, 0)
SOCKET(socket_vsock_datagram, 40, SOCK_DGRAM, 0)
SOCKET(socket_algorithms, 38, SOCK_SEQPACKET, 0)
SOCKET(socket_key, 15, SOCK_RAW, 2)
SOCKET(socket_xdp, 44, SOCK_RAW, 0)
SOCKET(socket_tipc, 30, SOCK_STREAM, 0)
SOCKET(socket_rds, 21, SOCK_SEQPACKET, 0)
SOCKET(socket_can, 29, SOCK_RAW, 1)
SOCKET(socket_bluetooth, 31, SOCK_RAW, 1)
SOCKET(socket_qualcomm, 42, SOCK_DGRAM, 0)
SOCKET(socket_nfc, 39, SOCK_SEQPACKET, 0)
SOCKET(socket_smc, 43, SOCK_STREAM, 0)
SOCKET(netlink_diagnostics, AF_NETLINK, SOCK_RAW, 4)
SOCKET(netlink_filter, AF_NETLINK, SOCK_RAW, 12)
SOCKET(netlink_audit, AF_NETLINK, SOCK_RAW, 9)
SOCKET(netlink_kernel_events, AF_NETLINK, SOCK_RAW, 15)
SOCKET(netlink_generic, AF_NETLINK, SOCK_RAW, 16)
SOCKET(netlink_connector, AF_NETLINK, SOCK_RAW, 11)
SOCKET(netlink_crypto, AF_NETLINK, SOCK_RAW, 21)
static long pair(int type) {
    int ends[2];
    return is_open(socketpair(AF_UNIX, type, 0, ends));
}
TRY(pair_stream) { return pair(SOCK_STREAM | SOCK_CLOEXEC); }
TRY(pair_packets) { return pair(SOCK_SEQPACKET); }
TRY(pair_datagram) { return pair(SOCK_DGRAM); }
TRY(pair_datagram_flags) { return pair(SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK); }

static void report(const char *name, long (*attempt)(void)) {
    int status;
    pid_t child = fork();
    if (child == 0) _exit((int)-attempt());
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror(name);
        exit(2);
    }
    if (WIFSIGNALED(status)) printf("%s SIG%s\n", name, sigabbrev_np(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == 0) printf("%s open\n", name);
    else printf("%s %s\n", name, strerrorname_np(WEXITSTATUS(status)));
    fflush(stdout);
}

int main(int count, char **words) {
    if (getuid() == 0) {
        fputs("attempts: never as root: outside a sandbox some would succeed\n", stderr);
        return 2;
    }
    for (int n = 1; n < count; n++)
        for (const struct row *row = __start_attempts; row < __stop_attempts; row++) {
            if (strcmp(words[n], "-") == 0) puts(row->name);
            else if (strcmp(words[n], "all") == 0 || strcmp(words[n], row->name) == 0)
                report(row->name, row->attempt);
        }
    return 0;
}
