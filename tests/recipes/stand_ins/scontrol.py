"""`scontrol show hostnames LIST`, of the one list that the tests use."""

import sys

assert sys.argv[1:] == ["show", "hostnames", "node-[0-1]"]
sys.stdout.write("node-0\nnode-1\n")
