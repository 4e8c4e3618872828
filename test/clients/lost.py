"""lost.py URL: handles three messages that are claimed together, one by one; the first takes until all three claims are lost."""
import logging
import sys
import time

import postrider

logging.basicConfig(level=logging.WARNING)
worker, done = postrider.Worker(sys.argv[1], threads=1, batch=3, wait=1), set()


@worker.handle("order.*")
def order(message):
    print(message.type, message.attempt, flush=True)
    while message.attempt == 1 and len(worker._claims.lost) < 3:
        time.sleep(0.01)
    done.add(message.type)
    if len(done) == 3 and message.attempt > 1:
        worker.stop()


worker.run()
