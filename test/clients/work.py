"""work.py URL COUNT: handles messages as clients_test.py expects, and ends after COUNT of them are completed."""
import os
import sys
import threading
import time

import postrider

worker = postrider.Worker(sys.argv[1], threads=2, batch=5, types=True)
left, lock, seen = [int(sys.argv[2])], threading.Lock(), {}


def done():
    with lock:
        left[0] -= 1
        if left[0] == 0:
            worker.stop()


@worker.handle("order.slow")
def slow(message):
    time.sleep(2.5)  # longer than a claim lasts: it is renewed meanwhile
    done()


@worker.handle("order.picky")
def picky(message):
    if message.attempt == 1:
        raise postrider.Fail("dependency_failure", "not yet", code="E1", retry_after="100ms")
    done()


@worker.handle("order.jam")
def jam(message):
    if message.attempt == 1:
        raise postrider.Fail("dependency_failure", "later", retry_after="1s", release_followers=True)
    if "after" not in seen:
        os._exit(1)  # the one behind it was not let past
    done()


@worker.handle("order.after")
def after(message):
    seen["after"] = True
    done()


@worker.handle("order.broken")
def broken(message):
    if message.attempt == 1:
        raise KeyError("boom")
    done()


@worker.handle("order.*")
def order(message):
    done()
    return [postrider.Message("handled", {"type": message.type, "bytes": message.payload.hex(), "headers": message.headers},
                              box="ledger", stream=message.stream)]


worker.run()
