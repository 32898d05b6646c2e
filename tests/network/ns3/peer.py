"""A program that speaks the protocol of design/0018 without ns-3: each message takes 1 us and a ps per byte.

`peer.py honest`, or the name of one fault.
"""

from __future__ import annotations

import os
import struct
import sys
import time

NEVER = 2**63 - 1
HELLO = b"astrarium-ns3" + struct.pack("<I", 2) + b"none"


def write(kind: bytes, body: bytes) -> None:
    os.write(1, struct.pack("<I", len(body) + 1) + kind + body)


def read() -> tuple[bytes, bytes]:
    head = sys.stdin.buffer.read(4)
    if len(head) < 4:
        sys.exit(0)
    body = sys.stdin.buffer.read(struct.unpack("<I", head)[0])
    return body[:1], body[1:]


def before_the_topology(fault: str) -> None:
    if fault == "silent":
        time.sleep(600)
    if fault == "garbage":
        os.write(1, b"Usage: " * 20)
        time.sleep(600)
    if fault == "other_version":
        write(b"H", HELLO.replace(b"\2\0\0\0", b"\3\0\0\0"))
    elif fault == "other_program":
        write(b"H", b"hello")
    elif fault == "dies_at_once":
        print("cannot open libns3-core.so", file=sys.stderr)
        sys.exit(127)
    else:
        write(b"H", HELLO)


def at_a_step(fault: str, until: int) -> None:
    if fault == "dies":
        print("assert failed", file=sys.stderr)
        os.kill(os.getpid(), 11)
    if fault == "refuses":
        write(b"E", b"a queue was full")
        sys.exit(1)
    if fault == "stops":
        time.sleep(600)
    if fault == "closes":
        os.close(1)
        time.sleep(600)
    if fault == "unknown_message":
        write(b"D", struct.pack("<Qq", 99, until))
    if fault == "strange_frame":
        write(b"?", b"")
    if fault == "time_back":
        write(b"N", struct.pack("<q", until - 1))


def main(fault: str) -> None:
    before_the_topology(fault)
    read()
    write(b"N", struct.pack("<q", NEVER))
    under_way: list[tuple[int, int]] = []       # delivered at, id
    while True:
        kind, body = read()
        if kind == b"W":
            continue
        until, _ = struct.unpack_from("<qI", body)
        for number, _, _, size, at in struct.iter_unpack("<QIIqq", body[12:]):
            under_way.append((at + 1_000_000 + size, number))
        at_a_step(fault, until)
        write(b"B", struct.pack("<q", until))
        due = sorted(each for each in under_way if each[0] <= until)
        under_way = [] if fault == "loses" else [each for each in under_way if each[0] > until]
        late = 1 if fault == "early" else 0
        write(b"D", b"".join(struct.pack("<Qq", number, at - late) for at, number in due))
        write(b"N", struct.pack("<q", min((at for at, _ in under_way), default=NEVER)))


main(sys.argv[1])
