#!/usr/bin/env python3
"""Handle messages in Python: claim them from a running Postrider, and send others with the completion.

    endpoints: {billing: {url: "pull:", timeout: 30s}}          # postrider.yaml
    routes: [{box: inbox, type: "order.*", to: billing}]

    PYTHONPATH=clients/python python3 worker.py http://127.0.0.1:8026
"""
import signal
import sys

import postrider

worker = postrider.Worker(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8026", wait=5)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: worker.stop())  # what is being handled ends first


@worker.handle("order.placed")
def bill(message):
    order = message.json()
    if order["total"] <= 0:  # it is tried again as often as `retry` of the endpoint says, unless a rule for this reason decides otherwise
        raise postrider.Fail("validation_failure", "nothing to bill")
    print("billing order", order["order"], "attempt", message.attempt, flush=True)
    # Stored in the transaction that completes the order: both, or neither.
    return [postrider.Message("order.billed", {"order": order["order"]}, stream=message.stream)]


worker.run()
