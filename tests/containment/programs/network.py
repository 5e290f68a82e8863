"""Tries to be heard outside.  usage: network.py PORT ABSTRACT STREAM DATAGRAM

At PORT of the host's loopback TCP, UDP and (where the kernel has it) vsock listen; ABSTRACT is the
name of an abstract Unix socket, STREAM and DATAGRAM are paths of others.
Prints {way: "open" or the name of the errno}.
"""

from __future__ import annotations

import array
import ctypes
import errno
import json
import os
import socket
import struct
import sys

PORT = int(sys.argv[1])
ABSTRACT = "\0" + sys.argv[2]
STREAM, DATAGRAM = sys.argv[3:5]
MPTCP = 262
WAIT_S = 1


def made(family: int, kind: int, protocol: int = 0) -> socket.socket:
    one = socket.socket(family, kind, protocol)
    one.settimeout(WAIT_S)
    return one


def tcp() -> None:
    made(socket.AF_INET, socket.SOCK_STREAM).connect(("127.0.0.1", PORT))


def tcp6() -> None:
    made(socket.AF_INET6, socket.SOCK_STREAM).connect(("::1", PORT))


def tcp_mapped() -> None:
    made(socket.AF_INET6, socket.SOCK_STREAM).connect(("::ffff:127.0.0.1", PORT))


def tcp_fast_open() -> None:
    one = made(socket.AF_INET, socket.SOCK_STREAM)
    one.sendto(b"fast", socket.MSG_FASTOPEN, ("127.0.0.1", PORT))


def multipath_tcp() -> None:
    made(socket.AF_INET, socket.SOCK_STREAM, MPTCP).connect(("127.0.0.1", PORT))


def tcp_to_the_world() -> None:
    made(socket.AF_INET, socket.SOCK_STREAM).connect(("192.0.2.1", 9))


def udp_to_the_world() -> None:
    made(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"datagram", ("192.0.2.1", 9))


def udp6_to_the_world() -> None:
    made(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"datagram", ("2001:db8::1", 9))


def multicast() -> None:
    one = made(socket.AF_INET, socket.SOCK_DGRAM)
    one.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("0.0.0.0"))
    one.sendto(b"datagram", ("224.0.0.251", 5353))


def broadcast() -> None:
    one = made(socket.AF_INET, socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    one.sendto(b"datagram", ("255.255.255.255", PORT))


def ping() -> None:
    one = made(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    one.sendto(struct.pack("!BBHHH", 8, 0, 0, 0, 1), ("192.0.2.1", 0))


def raw_ip() -> None:
    made(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)


def packet() -> None:
    made(socket.AF_PACKET, socket.SOCK_RAW)


def vsock_host() -> None:
    made(socket.AF_VSOCK, socket.SOCK_STREAM).connect((socket.VMADDR_CID_HOST, PORT))


def vsock_local() -> None:
    made(socket.AF_VSOCK, socket.SOCK_STREAM).connect((1, PORT))


def unix_abstract() -> None:
    made(socket.AF_UNIX, socket.SOCK_STREAM).connect(ABSTRACT)


def unix_stream() -> None:
    made(socket.AF_UNIX, socket.SOCK_STREAM).connect(STREAM)


def unix_datagram() -> None:
    made(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"datagram", DATAGRAM)


def pair() -> socket.socket:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]


def pair_sends() -> None:
    pair().sendto(b"pair", DATAGRAM)


def pair_connects() -> None:
    end = pair()
    end.connect(DATAGRAM)
    end.send(b"pair")


def pair_passes_a_descriptor() -> None:
    rights = array.array("i", [os.pipe()[1]])
    pair().sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], 0, DATAGRAM)


def stream_pair_connects() -> None:
    # A connected stream socket can be sent elsewhere by no call; the kernel must say so.
    socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)[0].connect(STREAM)


def channel_connects() -> None:
    """fd 3 is a socket that the daemon made: its family is not the handler's to choose."""
    socket.socket(fileno=os.dup(3)).connect(STREAM)


def channel_is_cut_loose() -> None:
    """Disconnected it could be connected elsewhere."""
    checked_connect(3, struct.pack("=H", socket.AF_UNSPEC))
    channel_connects()


def checked_connect(fd: int, address: bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.connect(fd, address, len(address)) < 0:
        raise OSError(ctypes.get_errno(), "")


def pair_listens() -> None:
    socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)[0].listen()


def kernel_events() -> None:
    made(socket.AF_NETLINK, socket.SOCK_RAW, 15).bind((0, 1))


def new_address() -> None:
    """Give loopback another address: what sees to it that a namespace can be used again."""
    one = made(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    address = socket.inet_aton("192.0.2.7")
    attribute = struct.pack("=HH4s", 8, 2, address)
    body = struct.pack("=BBBBI", socket.AF_INET, 32, 0, 0, 1) + attribute
    # RTM_NEWADDR, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE
    one.send(struct.pack("=IHHII", 16 + len(body), 20, 0x405, 1, 0) + body)
    (number,) = struct.unpack_from("=i", one.recv(4096), 16)
    if number:
        raise OSError(-number, "")


WAYS = (
    *(tcp, tcp6, tcp_mapped, tcp_fast_open, multipath_tcp, tcp_to_the_world, udp_to_the_world),
    *(udp6_to_the_world, multicast, broadcast, ping, raw_ip, packet, vsock_host, vsock_local),
    *(unix_abstract, unix_stream, unix_datagram, pair_sends, pair_connects),
    *(pair_passes_a_descriptor, stream_pair_connects, channel_connects, kernel_events),
    *(channel_is_cut_loose, pair_listens, new_address),
)


def fire_and_forget() -> None:
    """Datagrams to the host's own loopback: they leave without an error, so a listener decides."""
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        made(family, socket.SOCK_DGRAM).sendto(b"datagram", (host, PORT))


if __name__ == "__main__":
    found = {}
    for way in WAYS:
        try:
            way()
            found[way.__name__] = "open"
        except TimeoutError:
            found[way.__name__] = "ETIMEDOUT"
        except OSError as error:
            found[way.__name__] = errno.errorcode[error.errno]
    fire_and_forget()
    print(json.dumps(found))
