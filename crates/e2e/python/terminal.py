"""Runs a command in a terminal of its own, for tests that press keys.

Reads on stdin, a line each: `type TEXT` (and enter), `key HEX`, `size ROWS COLUMNS`. Writes whatever appears on
the terminal to stdout, and at the end `[exit CODE]`.
"""

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios

child, terminal = pty.fork()
if child == 0:
    os.execvp(sys.argv[1], sys.argv[1:])


def press(line):
    word, _, rest = line.strip().partition(" ")
    if word == "type":
        os.write(terminal, rest.encode() + b"\n")
    elif word == "key":
        os.write(terminal, bytes.fromhex(rest))
    elif word == "size":
        rows, columns = map(int, rest.split())
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


watched = [terminal, sys.stdin.fileno()]
pending = b""
while terminal in watched:
    for ready in select.select(watched, [], [])[0]:
        try:
            data = os.read(ready, 4096)
        except OSError:  # everybody has closed the other side
            data = b""
        if not data:
            watched.remove(ready)
        elif ready == terminal:
            text = data.decode(errors="replace")
            # A line that replaces the one before it ends nowhere: here it is a line of its own.
            text = re.sub(r"\r\x1b\[K([^\r\n]*)", r"\n[in its place] \1\n", text)
            # A question that waits for its answer is a line, too.
            text = re.sub(r": $", ": \n", text)
            sys.stdout.write(text.replace("\r", ""))
            sys.stdout.flush()
        else:
            pending += data
            *lines, pending = pending.split(b"\n")
            for line in lines:
                press(line.decode())

status = os.waitpid(child, 0)[1]
print(f"\n[exit {os.waitstatus_to_exitcode(status)}]", flush=True)
