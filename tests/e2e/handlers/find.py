"""A reconciler for tests: it asks the world what it has, and prints the answer."""

import json
import os
import socket
import sys

asked = json.load(sys.stdin)
with socket.create_connection(("127.0.0.1", int(os.environ["WORLD_PORT"]))) as world:
    question = {"do": "find", "effect_id": asked["effect_id"]}
    world.sendall(json.dumps(question).encode() + b"\n")
    with world.makefile("rb") as answers:
        print(answers.readline().decode())
