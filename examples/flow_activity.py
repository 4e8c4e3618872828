#!/usr/bin/env python3
"""Does activities of flows, written in Python. The flow itself is a C function of another program; see doc/flows.md.

    endpoints: {workers: {url: "pull:", timeout: 30s}}
    routes: [{box: activities, type: "card.*", to: workers}]
    http: {listen: 127.0.0.1:8026}

    python3 flow_activity.py http://127.0.0.1:8026
"""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients", "python"))
import postrider

worker = postrider.ActivityWorker(sys.argv[1], token=os.environ.get("POSTRIDER_TOKEN"))


@worker.activity("card.charge")
def charge(activity):
    order = activity.json()
    if order["total"] > 1000:
        raise postrider.ActivityFailed("the card is declined", retryable=False)
    # A real one passes activity.id to the bank: it is the same in each attempt, so the customer pays once.
    return {"receipt": "r-%s" % order["order"], "total": order["total"]}


worker.run()
