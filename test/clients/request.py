"""request.py URL ask|resume ID|away: what clients_test.py expects of a client that asks and replies, with Python.

ask prints the id of a request that nobody has answered when it ends; resume answers it and waits for its reply."""
import sys
import threading

import postrider

url, what = sys.argv[1:3]
requests = postrider.Requests(url, wait=1)
worker = postrider.Worker(url, wait=1)
plain = []


@worker.handle("price.*")
def on_price(message):
    return [message.reply("price", {"item": message.json()["item"], "bytes": 5}, headers={"h": "1"})]


@worker.handle("plain")
def on_plain(message):
    try:
        message.reply("x")
    except ValueError as refused:
        plain.append(str(refused))


@worker.handle("bad")
def on_bad(message):
    raise postrider.Fail("validation_failure", "no")


def work():
    thread = threading.Thread(target=worker.run)
    thread.start()
    return thread


def ask(item, **more):
    return postrider.Message("price.ask", {"item": item}, box="inbox", **more)


if what == "ask":
    thread = work()
    reply = requests.request(ask(7), deadline=20)
    assert reply.type == "price" and reply.json() == {"item": 7, "bytes": 5} and reply.headers["h"] == "1", reply
    the_id = postrider.uuid7()
    first = requests.request(ask(8, id=the_id), deadline=20)
    assert first.json()["item"] == 8 and requests.request(ask(8, id=the_id), deadline=5).id == first.id
    assert requests.resume(the_id, deadline=0).id == first.id  # it is kept
    try:
        requests.request(postrider.Message("bad", {}, box="inbox"), deadline=20)
        raise SystemExit("there was to be no reply")
    except postrider.NoReply as none:
        assert none.state == "dead", none
    try:
        requests.resume(postrider.uuid7(), deadline=1)
        raise SystemExit("nobody knows this one")
    except postrider.NoReply as none:
        assert none.state == "unknown", none
    try:
        requests.request(postrider.Message("x", box="nowhere"), deadline=1)
        raise SystemExit("there is no such box")
    except RuntimeError as refused:
        assert "nowhere" in str(refused), refused
    events = postrider.Events(url)
    events.append(postrider.Message("plain", {}, stream="p", box="inbox"))
    while not plain:
        thread.join(0.02)
    assert "nobody waits" in plain[0], plain
    worker.stop()
    thread.join()
    try:
        requests.request(ask(9), deadline=0.2)
        raise SystemExit("nobody works any more")
    except postrider.RequestTimeout as timeout:
        print(timeout.id)
elif what == "resume":
    try:
        requests.resume(sys.argv[3], deadline=0.2)
        raise SystemExit("nobody works yet")
    except postrider.RequestTimeout as timeout:
        assert timeout.id == sys.argv[3], timeout
    thread = work()
    assert requests.resume(sys.argv[3], deadline=20).json()["item"] == 9
    worker.stop()
    thread.join()
else:
    thread = work()
    assert requests.request(ask(1), deadline=20).json()["item"] == 1
    worker.stop()
    thread.join()
