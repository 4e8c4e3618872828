"""Compares what senders and receivers wrote down with what the store says in the end.  It knows nothing of the engine's inside:
messages, their deliveries (legs), and one end for each."""
import collections
import datetime
import re

from world import ENDPOINTS, MAX_ATTEMPTS, TYPES

POISON = 7
RETRY_SECONDS = 30  # what timed out is sent again by then, also by another relay
LATE_SECONDS = 20  # a request may wait so long at a receiver that is busy: the timeout of an endpoint
PROBLEMS_MAX = 10

# What explains that a receiver got something twice: whoever had it could not say any more that it was delivered.  What befalls one
# relay is in world.hurts and in its log, which has a line for each lease that was lost, but not for each request that timed out
# (ten lines a second about single messages).
STORE_TROUBLES = ("terminate", "restart", "fail_over")
LOGGED = re.compile(r"time=(\S+)Z .*(?:event=|reason=)(lease_lost|stop_timeout|store_trouble|timeout_exceeded|box_taken(?= .*true))\b")
ENDS = ("kill", "stop_timeout")  # of a relay: what comes from it later was under way, however long ago it ended
TAKEN = "box_taken"  # from one that did not leave; that one writes lease_lost when it can run again, which may be later
UNREAD = "answer_unread"  # the sender had hung up before it had the answer
GIVEN_UP_SECONDS = 2  # before it writes stop_timeout, a relay gives up what is out: an eighth of stop_timeout, and a busy store
ALL = 0
Trouble = collections.namedtuple("Trouble", "at what relay box")  # relay: ALL, or a number; box: "" is any


class Judge:
    def __init__(self, world):
        self.world, self.place = world, world.place
        self.broken, self.counts = [], collections.Counter()
        self.app = [(number, self.place.id(id) if not isinstance(id, str) else id, *rest) for number, id, *rest in
                    self.place.ask("SELECT number, id, box, stream, digest, type FROM {a:app} ORDER BY number")]
        self.dead = {(self.place.id(id), endpoint or destination): (attempts, failures, cause, payload)
                     for id, endpoint, destination, attempts, failures, cause, payload in
                     self.place.payloads("dead_letter", "id, endpoint, destination, attempts, failures, cause")}
        self.done = collections.Counter((self.place.id(id), endpoint or destination) for id, endpoint, destination in
                                        self.place.ask("SELECT id, endpoint, destination FROM {t:done}"))
        self.arrived = collections.defaultdict(list)  # leg: those that were answered with yes
        self.reached = collections.defaultdict(list)  # leg: all
        self.troubles = sorted(self.find_troubles())
        for arrival in world.receiver.arrivals:
            self.reached[arrival.id, arrival.endpoint].append(arrival)
            if arrival.status == 200:
                self.arrived[arrival.id, arrival.endpoint].append(arrival)

    def wrong(self, promise, what):
        self.counts[promise] += 1
        if self.counts[promise] <= PROBLEMS_MAX:
            self.broken.append("%s: %s" % (promise, what))

    @staticmethod
    def legs(box, kind):
        return ["b"] if box == "ledger" else list(TYPES[kind][1])

    # ---- Ends ----

    def judge_leg(self, id, endpoint, kind):
        leg = (id, endpoint)
        arrived, dead = leg in self.arrived, self.dead.get(leg)
        if dead and dead[2] == POISON and dead[0] - dead[1] >= MAX_ATTEMPTS:
            self.counts["poison"] += 1  # killed so often while it was out: that is promised, too
        elif kind == "doomed":
            if not dead:
                self.wrong("I1 it always fails and is not dead", leg)
        elif kind == "drop":
            if dead or leg not in self.reached:
                self.wrong("I1 the rule that discards it was not asked", leg)
        elif not kind.startswith("op."):
            if not arrived:
                self.wrong("I1 committed and not delivered", (*leg, kind))
            if dead:
                self.wrong("I5 dead, though nothing about it was doomed", (*leg, kind, dead[:3]))
            if self.world.keep == "1h" and self.done[leg] != 1:
                self.wrong("I5 kept %d times among the delivered" % self.done[leg], (*leg, kind))

    def judge_orders(self):
        """What people ended is exactly what the record says: in the same transaction as the order."""
        ends = collections.Counter()
        for action, changed in self.place.ask("SELECT action, sum(changed) FROM {t:audit} GROUP BY action"):
            ends[action] += int(changed)
        legs = [(id, "a") for _, id, box, _, _, kind in self.app if kind.startswith("op.")]
        gone = sum(leg not in self.done and leg not in self.dead for leg in legs)
        self.counts["discarded by people"] = ends["discard"] + ends["dead_discard"]
        if self.world.keep == "1h" and gone != ends["discard"] + ends["dead_discard"]:
            self.wrong("I1 %d are gone, and people discarded %d" % (gone, ends["discard"] + ends["dead_discard"]), dict(ends))
        for leg in legs:
            if leg not in self.arrived and self.done[leg]:
                self.wrong("I5 kept as delivered, and nobody got it", leg)

    def judge_ends(self):
        known = {}
        for _, id, box, _, _, kind in self.app:
            for endpoint in self.legs(box, kind):
                known[id, endpoint] = kind
                self.judge_leg(id, endpoint, kind)
        for id in self.world.committed:
            if (id, "a") not in known and (id, "b") not in known:
                self.wrong("I1 the sender was told that it is committed, and its row is gone", id)
        for leg in list(self.reached) + list(self.dead) + list(self.done):
            if leg not in known:
                self.wrong("I2 never committed, or never meant for it", leg)
            if leg[0] in self.world.rolled_back:
                self.wrong("I2 rolled back", leg)
        self.counts["legs"] = len(known)

    # ---- What arrived ----

    def judge_bytes(self):
        from world import digest
        digests = {id: d for _, id, _, _, d, _ in self.app}
        for leg, arrivals in self.reached.items():
            if any(a.digest != digests.get(leg[0]) for a in arrivals):
                self.wrong("I8 not what was sent", leg)
        for leg, (_, _, _, payload) in self.dead.items():
            if digest(payload) != digests.get(leg[0]):
                self.wrong("I7 a dead letter is not what was sent", leg)

    def judge_order(self):
        """I3: within a stream, first hand-outs are in order at each endpoint: the order in which the receiver wrote them down, since
        its clock can be set back."""
        first, streams = {}, collections.defaultdict(list)
        for place, arrival in enumerate(self.world.receiver.arrivals):
            first.setdefault((arrival.id, arrival.endpoint), place)
        for _, id, box, stream, _, kind in self.app:
            for endpoint in self.legs(box, kind):
                if stream and (id, endpoint) in first:
                    streams[box, stream, endpoint].append((first[id, endpoint], id))
        for key, handed_out in streams.items():
            for (before, earlier), (place, id) in zip(handed_out, handed_out[1:]):
                if place < before:
                    self.wrong("I3 first handed out before an earlier one of its stream", (*key, id, *self.story_of(id, earlier)))

    def story_of(self, *ids):
        """What is known of these messages, for people."""
        app = [row for row in self.app if row[1] in ids]
        arrived = [arrival for arrival in self.world.receiver.arrivals if arrival.id in ids]
        times = [arrival.at for arrival in arrived]
        logged = ["%d: %s" % (daemon.number, line) for daemon in self.world.daemons
                  for line in self.world.log_of(daemon).splitlines() if any(id in line for id in ids)]
        logged += [trouble for trouble in self.troubles if abs(trouble.at - times[0]) < 60 and
                   trouble.relay in [ALL] + [arrival.relay for arrival in arrived]]
        kept = [row for row in self.place.ask("SELECT id, destination, attempts, failures, story FROM {t:done}") if self.place.id(row[0]) in ids]
        return app, arrived, self.between(min(times), max(times)), logged, kept

    def find_troubles(self):
        for at, what in self.world.events:
            if what in STORE_TROUBLES:
                yield Trouble(at, what, ALL, "")
        for at, what, relay in self.world.hurts:
            yield Trouble(at, what, relay, "")
        for daemon in self.world.daemons:
            for line in self.world.log_of(daemon).splitlines():
                found, box = LOGGED.search(line), re.search(r" box=(\S+)", line)
                if found:
                    at = datetime.datetime.fromisoformat(found[1]).replace(tzinfo=datetime.timezone.utc)
                    early = GIVEN_UP_SECONDS if found[2] == "stop_timeout" else 0
                    yield Trouble(at.timestamp() - early, found[2], daemon.number, box[1] if box else "")

    def cause_of(self, box, before, after):
        """What befell one of the two senders before the second time and not long before the first, the latest of it; None: nothing."""
        causes = [t.what for t in reversed(self.troubles) if t.at <= after.at and t.box in ("", box) and
                  t.relay in (ALL, before.relay, after.relay) and (t.at >= before.at - LATE_SECONDS or t.what in ENDS) and
                  (t.what != "timeout_exceeded" or after.at - t.at < RETRY_SECONDS)]
        causes += [UNREAD for arrival in (before, after) if arrival.number in self.world.receiver.unread]
        return next((what for what in causes if what != TAKEN), TAKEN if causes else None)

    def judge_duplicates(self):
        """I9: each has a cause."""
        boxes = {id: box for _, id, box, _, _, _ in self.app}
        by_people = {id for _, id, _, _, _, kind in self.app if kind.startswith("op.")}
        for leg, arrivals in self.arrived.items():
            for before, after in zip(arrivals, arrivals[1:]):
                cause = "an order" if leg[0] in by_people else self.cause_of(boxes.get(leg[0], ""), before, after)
                if cause:
                    self.counts["duplicates: " + cause] += 1
                else:
                    self.wrong("I9 delivered twice without a cause", (*leg, before.at, after.at, *self.story_of(leg[0])))

    def between(self, since, until):
        """Whatever happened then, for people."""
        return ["%.1f %s" % (at - since, what) for at, what in sorted(self.world.events + self.world.diary)
                if since - 3 <= at <= until + 1]

    def judge_owners(self):
        """I6: no lane has two owners."""
        owned = {}
        for instance, box, lanes in self.place.owners():
            lanes &= 0xffffffffffffffff
            for (other, other_box), theirs in owned.items():
                if other != instance and other_box == box and lanes & theirs:
                    self.wrong("I6 a lane has two owners", (instance, other))
            owned[(instance, box)] = lanes
            self.counts["changes of owners"] += 1

    def judge_waiting(self):
        for box in ("outbox", "ledger"):
            for id, in self.place.ask("SELECT id FROM {t:%s}" % box):
                self.wrong("I1 still waiting after the drain", (box, self.place.id(id)))

    def judge_file(self):
        for text in self.place.damage():
            self.wrong("the store is damaged", text)

    # ---- All of it ----

    def judge(self):
        for check in (self.judge_file, self.judge_waiting, self.judge_ends, self.judge_orders, self.judge_bytes, self.judge_order,
                      self.judge_duplicates, self.judge_owners):
            check()
        return self.broken

    def summary(self):
        """[(what, how many)] for people."""
        faults = collections.Counter(what for _, what in self.world.events)
        yield "messages committed", len(self.app)
        yield "rolled back", len(self.world.rolled_back)
        yield "deliveries (one for each endpoint)", self.counts["legs"]
        yield "requests at the receivers", len(self.world.receiver.arrivals)
        yield "dead letters", len(self.dead)
        yield "discarded by people", self.counts["discarded by people"]
        yield "orders of people", sum(self.world.orders.values())
        yield "relays started", self.world.started
        for what, count in sorted(faults.items()):
            yield "fault " + what, count
        duplicates = {what: count for what, count in self.counts.items() if what.startswith("duplicates: ")}
        yield "duplicates", sum(duplicates.values())
        for what, count in sorted(duplicates.items()):
            yield "  after " + what[12:], count
