"""Trainings of known shape for `bench.neighbours`: small scripts in pure Python.

`work` takes CPU time, not wall time, so that the cores' speed beside others doesn't matter. Each
ends after a fixed amount of work. Nothing is prepared ahead: a loop that is starved would wait less
for what was.
"""

from __future__ import annotations

BEGIN = """
import multiprocessing, os, threading, time
import trimtab

def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: sum(range(1000))

def batches(count, seconds, get):
    for _ in range(count):
        get(seconds)
        yield [0] * 8

def train(count, seconds, load=time.sleep, wait=0.0):
    for _ in trimtab.wrap(batches(count, wait, load)):
        work(seconds)
        trimtab.step(samples=8)
"""

STORIES = {
    "asleep": "for _ in range(72): time.sleep(0.5)",
    "steady leak": """
kept = []
for _ in trimtab.wrap(batches(260, 0.14, time.sleep)):
    kept.append(b"x" * 2_000_000)
    trimtab.step(samples=8)
""",
    "straggler": """
def rank(number, barrier, slow):
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(number), "2"
    for _ in range(260):
        time.sleep(slow if number else 0.1)
        with trimtab.phase("communication"): barrier.wait()
        trimtab.step(samples=8)

spawn = multiprocessing.get_context("spawn")
if __name__ == "__main__":
    barrier = spawn.Barrier(2)
    ranks = [spawn.Process(target=rank, args=(n, barrier, 0.16)) for n in range(2)]
    for each in ranks: each.start()
    for each in ranks: each.join()
""",
    "GPU not seen": "work(36)",
    "sleeping loader": "train(400, 0.03, wait=0.05)",
    "own decoding": "train(400, 0.03, load=work, wait=0.05)",
    "starved training": "train(500, 0.06)",
    "deadlock": """
train(250, 0.05)
lock = threading.Lock()
lock.acquire()
lock.acquire(timeout=20)
""",
    "sleep at the end": "train(300, 0.05); time.sleep(20)",
    "leak with slowing steps": """
kept = []
for number in range(1000):
    kept.append(b"x" * 1_000_000)
    time.sleep(0.1 + 0.00015 * number)
    trimtab.step(samples=8)
""",
    "Keras": """
for epoch in range(4):
    train(125, 0.04)
    trimtab.log(loss=1.0 / (epoch + 1))
    with trimtab.phase("evaluate"): work(2)
""",
    "compile": "work(8); trimtab.step(samples=8); train(400, 0.05)",
    "GAN": """
for _ in trimtab.wrap(batches(300, 0.01, time.sleep)):
    work(0.03); trimtab.step(samples=8)
    work(0.03); trimtab.step(samples=8)
""",
    "pipeline": """
def produce(pipe):
    while pipe.recv():
        time.sleep(0.06)
        pipe.send([0] * 8)

def fetch(pipe):
    pipe.send(True)
    return pipe.recv()

if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    own, others = spawn.Pipe()
    producer = spawn.Process(target=produce, args=(others,))
    producer.start()
    for _ in trimtab.wrap(fetch(own) for _ in range(400)):
        work(0.03)
        trimtab.step(samples=8)
    own.send(False)
    producer.join()
""",
    "late DDP rank": """
def rank(number, barrier):
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(number), "2"
    for _ in range(500):
        work(0.06 if number else 0.03)
        barrier.wait()
        trimtab.step(samples=8)

spawn = multiprocessing.get_context("spawn")
if __name__ == "__main__":
    barrier = spawn.Barrier(2)
    ranks = [spawn.Process(target=rank, args=(n, barrier)) for n in range(2)]
    for each in ranks: each.start()
    for each in ranks: each.join()
""",
    "accumulation": """
for number, _ in enumerate(trimtab.wrap(batches(1000, 0.01, time.sleep))):
    work(0.02)
    if number % 4 == 3: trimtab.step(samples=32)
""",
}
"""Name -> script. The first four are those of `tests/offline/test_stories.py`, shorter."""
