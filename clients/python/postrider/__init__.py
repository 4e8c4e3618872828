"""Postrider for Python: send messages in your own transaction, work messages off, ask and reply, read events, start flows, verify webhooks.

One file, no dependencies, Python 3.8 or newer.

    import postrider

    with connection:                                   # sqlite3, psycopg, psycopg2, or a SQLAlchemy session
        connection.execute("INSERT INTO orders ...")
        postrider.send(connection, "order.created", {"total": 42}, stream="order-1")

    worker = postrider.Worker("http://127.0.0.1:8026")

    @worker.handle("order.*")
    def on_order(message):
        return [postrider.Message("order.billed", {"order": message.json()["id"]})]   # stored with the completion

    worker.run()

    events = postrider.Events("http://127.0.0.1:8026")
    events.append(postrider.Message("order.paid", {"total": 42}, stream="order-1"), expected_version=3)
    for event in events.read("order-1"):
        print(event.version, event.type, event.json())

    flows = postrider.Flows("http://127.0.0.1:8026")
    flows.start("checkout", {"total": 42}, id="order-1")
    flows.raise_event("order-1", "approved")
    print(flows.wait("order-1").json())

    activities = postrider.ActivityWorker("http://127.0.0.1:8026")

    @activities.activity("charge")
    def charge(activity):
        return {"receipt": bank.charge(activity.json(), key=activity.id)}   # what the flow gets

    activities.run()

    requests = postrider.Requests("http://127.0.0.1:8026")
    price = requests.request(postrider.Message("price.ask", {"item": 7}), deadline=10).json()
"""
import base64
import fnmatch
import hashlib
import hmac
import http.client
import json
import logging
import os
import re
import socket
import threading
import time
import urllib.parse
import uuid
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple, Union

__all__ = ["Message", "Received", "Fail", "Worker", "Activity", "ActivityFailed", "ActivityWorker", "Event", "Events", "Flow", "Flows", "FlowFailed", "VersionConflict",
           "Requests", "Reply", "RequestTimeout", "NoReply", "NotFound", "WebhookError", "send", "verify_webhook", "uuid7"]

log = logging.getLogger("postrider")

Payload = Union[None, str, bytes, bytearray, memoryview, dict, list, int, float, bool]
When = Union[None, datetime, timedelta]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
_TEXTS = ("source", "subject", "content_type", "correlation_id", "causation_id", "traceparent", "tracestate")


def uuid7() -> uuid.UUID:
    """An id that sorts by the time at which it was made."""
    bits = time.time_ns() // 1_000_000 << 80 | int.from_bytes(os.urandom(10), "big")
    bits = bits & ~(0xF << 76) | 0x7 << 76
    return uuid.UUID(int=bits & ~(0x3 << 62) | 0x2 << 62)


@dataclass
class Message:
    """A message to send. A payload that is neither text nor bytes is sent as JSON."""
    type: str
    payload: Payload = None
    stream: Optional[str] = None
    destination: Optional[str] = None
    id: Optional[uuid.UUID] = None
    headers: Optional[Mapping[str, Any]] = None
    due: When = None
    expires: When = None
    box: str = "outbox"
    source: Optional[str] = None
    subject: Optional[str] = None
    content_type: Optional[str] = None
    correlation_id: Optional[str] = None
    causation_id: Optional[str] = None
    traceparent: Optional[str] = None
    tracestate: Optional[str] = None
    event: bool = False
    expected_version: Optional[int] = None  # of an event: the number of events that its stream must have; 0: none yet


class VersionConflict(Exception):
    """The stream of an event is at another version than expected: read it again before you retry."""

    def __init__(self, text: str, expected: int, version: int):
        super().__init__(text)
        self.expected, self.version = expected, version


def _content(payload: Payload) -> Union[None, str, bytes]:
    if payload is None or isinstance(payload, str):
        return payload
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return bytes(payload)
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def _time(when: When) -> Optional[datetime]:
    if isinstance(when, timedelta):
        return datetime.now(timezone.utc) + when
    if when is not None and when.tzinfo is None:
        raise ValueError("due and expires need a time zone: datetime.now(timezone.utc), or use a timedelta")
    return when


def _microseconds(when: When) -> Optional[int]:
    at = _time(when)
    return None if at is None else (at - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)


def _name(word: str, what: str) -> str:
    if not _NAME.match(word):
        raise ValueError('%s "%s" must be letters, digits and _, at most 63' % (what, word))
    return word


# ---- Sending ----------------------------------------------------------------------------------


def _driver(connection: Any) -> Tuple[Any, str]:
    """The DB-API connection inside, and the database: "sqlite" or "postgres"."""
    for _ in range(4):
        module = type(connection).__module__.split(".")[0]
        if module == "sqlite3":
            return connection, "sqlite"
        if module in ("psycopg", "psycopg2"):
            return connection, "postgres"
        if module != "sqlalchemy":
            break
        if hasattr(connection, "driver_connection"):  # what its pool hands out
            connection = connection.driver_connection
        else:  # a session has a method, a connection an attribute of this name
            connection = connection.connection() if callable(connection.connection) else connection.connection
    raise TypeError("%s.%s is not a connection of sqlite3, psycopg, psycopg2 or SQLAlchemy" %
                    (type(connection).__module__, type(connection).__name__))


def _send_sqlite(connection: Any, m: Message, the_id: uuid.UUID, table: str) -> None:
    columns = {"id": the_id.bytes, "type": m.type, "payload": _content(m.payload), "stream": m.stream,
               "headers": None if m.headers is None else json.dumps(m.headers, ensure_ascii=False),
               "due_at": _microseconds(m.due), "expires_at": _microseconds(m.expires), **{n: getattr(m, n) for n in _TEXTS}}
    columns = {name: value for name, value in columns.items() if value is not None}
    if m.destination:
        columns["destination"] = m.destination
    if m.event:
        columns["event"] = 1
    insert = lambda: connection.execute('INSERT INTO "%s" (%s) VALUES (%s)' % (table, ", ".join(columns), ", ".join("?" * len(columns))),
                                        tuple(columns.values()))
    if m.expected_version is None:
        insert()
    else:
        _insert_expecting(connection, m, the_id, insert)


def _insert_expecting(connection: Any, m: Message, the_id: uuid.UUID, insert: Callable[[], Any]) -> None:
    """The insert has the write lock, so the version that it got is compared, and not one that was read before."""
    if not connection.in_transaction:
        if connection.isolation_level is None:
            raise ValueError("expected_version needs a transaction: BEGIN first")
        connection.execute("BEGIN IMMEDIATE")  # as the first INSERT would: it is not committed here
    # Who reads first cannot write when somebody else wrote meanwhile, and no waiting helps: so this writes first, nothing.
    connection.execute("DELETE FROM postrider_event WHERE 0")
    version = lambda: connection.execute("SELECT version FROM postrider_event WHERE stream = ? AND id = ?", (m.stream, str(the_id))).fetchone()
    if version() is not None:
        return  # the same send again
    connection.execute("SAVEPOINT postrider_expect")
    try:
        insert()
        got = version()[0]
        if got != m.expected_version + 1:
            raise VersionConflict('stream "%s" is at version %d, not %d' % (m.stream, got - 1, m.expected_version),
                                  m.expected_version, got - 1)
    except BaseException:
        connection.execute("ROLLBACK TO postrider_expect")
        raise
    finally:
        connection.execute("RELEASE postrider_expect")


def _send_postgres(connection: Any, m: Message, the_id: uuid.UUID, schema: str) -> None:
    content = _content(m.payload)
    arguments = {"type": (m.type, "text"), "stream": (m.stream, "text"), "destination": (m.destination, "text"),
                 "payload": (content, "bytea" if isinstance(content, bytes) else "text"), "id": (str(the_id), "uuid"),
                 "headers": (None if m.headers is None else json.dumps(m.headers), "jsonb"), "box": (m.box, "text"),
                 "due": (_time(m.due), "timestamptz"), "expires": (_time(m.expires), "timestamptz"),
                 **{n: (getattr(m, n), "text") for n in _TEXTS}}
    arguments = {name: value for name, value in arguments.items() if value[0] is not None or name == "payload"}
    if m.event:
        arguments["event"] = (True, "boolean")
    if m.expected_version is not None:
        arguments["expected_version"] = (m.expected_version, "bigint")
    cursor = connection.cursor()
    try:
        cursor.execute('SELECT "%s".send(%s)' % (schema, ", ".join("%s => %%s::%s" % (n, t) for n, (_, t) in arguments.items())),
                       tuple(value for value, _ in arguments.values()))
    finally:
        cursor.close()


def send(connection: Any, type: Union[str, Message], payload: Payload = None, *, table: Optional[str] = None,
         schema: str = "postrider", **fields: Any) -> uuid.UUID:
    """Store a message through the caller's connection, in its open transaction. Returns the message's id.

    connection is one of sqlite3, psycopg, psycopg2, or a SQLAlchemy session or connection. Nothing is committed here: the
    message is delivered if and only if the transaction commits. A wrong expected_version raises VersionConflict on SQLite, and an
    error of the driver with the SQLSTATE PR409 on PostgreSQL. table is the box's table on SQLite where it has another name
    than the box (boxes: NAME: table:); schema is Postrider's schema on PostgreSQL."""
    m = type if isinstance(type, Message) else Message(type, payload, **fields)
    if m.expected_version is not None and not (m.event and m.stream):
        raise ValueError("expected_version is only for events: event=True, and a stream")
    the_id = m.id or uuid7()
    raw, database = _driver(connection)
    if database == "sqlite":
        _send_sqlite(raw, m, the_id, _name(table or m.box, "table"))
    else:
        _send_postgres(raw, m, the_id, _name(schema, "schema"))
    return the_id


# ---- Webhooks ---------------------------------------------------------------------------------


class WebhookError(Exception):
    """The request is not from who it says it is, is too old, or has no signature."""


def verify_webhook(secret: Union[str, Iterable[str]], headers: Mapping[str, str], body: bytes, tolerance: int = 300) -> str:
    """Check the signature of a Standard Webhooks request; returns the webhook-id, by which a repeated one is recognized.

    secret is "whsec_..." or several of them while keys change; body is the request's bytes as they came."""
    given = {name.lower(): value for name, value in headers.items()}
    try:
        the_id, stamp, signatures = (given["webhook-" + name] for name in ("id", "timestamp", "signature"))
    except KeyError as missing:
        raise WebhookError("the header %s is missing" % missing) from None
    if not stamp.isdigit() or abs(time.time() - int(stamp)) > tolerance:
        raise WebhookError("the timestamp %s is more than %d seconds away from now" % (stamp, tolerance))
    content = ("%s.%s." % (the_id, stamp)).encode() + body
    for one in [secret] if isinstance(secret, str) else secret:
        key = base64.b64decode(one[6:] if one.startswith("whsec_") else one)
        expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        for signature in signatures.split():
            version, _, value = signature.partition(",")
            if version == "v1" and hmac.compare_digest(value.encode(), expected.encode()):
                return the_id
    raise WebhookError("no signature is by this secret")


# ---- Working ----------------------------------------------------------------------------------


class Fail(Exception):
    """Raised by a handler: the message failed for this reason (validation_failure, dependency_failure, ...).

    release_followers: those behind it in its stream do not wait for its retry."""

    def __init__(self, reason: str, error: str = "", *, code: str = "", retry_after: Optional[str] = None,
                 release_followers: bool = False):
        super().__init__(error or reason)
        self.reason, self.error, self.code, self.retry_after = reason, error, code, retry_after
        self.release_followers = release_followers


class _Content:
    """What has a payload."""
    payload: bytes

    def json(self) -> Any:
        return json.loads(self.payload)

    def text(self) -> str:
        return self.payload.decode()


@dataclass
class Received(_Content):
    """A message that this worker has claimed."""
    id: str
    type: str
    attempt: int
    payload: bytes
    stream: Optional[str]
    headers: Dict[str, Any]
    fields: Dict[str, Any] = field(repr=False)  # all that the daemon says of it

    def reply(self, type: str, payload: Payload = None, **fields: Any) -> Message:
        """The reply to this request, for the handler to return: it is stored with the completion, once."""
        to = self.headers.get("postrider-reply-to")
        if to is None:
            raise ValueError("nobody waits for a reply to message %s: it has no header postrider-reply-to" % self.id)
        headers = {**(fields.pop("headers", None) or {}), "postrider-reply": self.id}
        return Message(type, payload, headers=headers, destination=to or None, correlation_id=self.id, causation_id=self.id, **fields)


def _received(claim: Mapping[str, Any]) -> Received:
    m = claim["message"]
    return Received(m["id"], m["type"], claim["attempt"], _bytes(m), m.get("stream"), m.get("headers") or {}, dict(m))


def _effect(m: Message) -> Dict[str, Any]:
    content = _content(m.payload)
    effect = {"box": m.box, "type": m.type, "stream": m.stream, "destination": m.destination, "headers": m.headers,
              "id": None if m.id is None else str(m.id), **{n: getattr(m, n) for n in _TEXTS}}
    for name, when in (("due_at", _time(m.due)), ("expires_at", _time(m.expires))):
        effect[name] = None if when is None else when.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    if isinstance(content, bytes):
        effect["payload_base64"] = base64.b64encode(content).decode()
    elif content is not None:
        effect["payload_text"] = content
    if m.event:
        effect["event"] = True
        effect["expected_version"] = m.expected_version
    return {name: value for name, value in effect.items() if value is not None}


class NotFound(KeyError):
    """The daemon does not know what was asked for."""
    __str__ = BaseException.__str__  # that of KeyError quotes the sentence


def _refusal(answer: bytes) -> Dict[str, Any]:
    """The error of an answer; empty where it is not the API that answers."""
    try:
        error = json.loads(answer)["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return error if isinstance(error, dict) else {}


class _Daemon:
    """One request at a time, to a daemon's HTTP API."""

    def __init__(self, url: str, token: Optional[str], timeout: float):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("url must be http://HOST:PORT or https://HOST:PORT, not %s" % url)
        self._address = parts.netloc.rpartition("@")[2]
        self._lock, self._trouble = threading.Lock(), ""  # what was said about the trouble that lasts
        self._https, self._host, self._port, self._timeout = parts.scheme == "https", parts.hostname, parts.port, timeout
        self._headers = {"Content-Type": "application/json", "X-Postrider": "1"}
        if token is not None:
            self._headers["Authorization"] = "Bearer " + token

    def ask(self, path: str, body: Optional[Mapping[str, Any]] = None, method: Optional[str] = None) -> Dict[str, Any]:
        """POST where there is a body. OSError and HTTPException: try again. RuntimeError: that does not help. KeyError: not found."""
        kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout)
        try:
            connection.request(method or ("GET" if body is None else "POST"), path, None if body is None else json.dumps(body), self._headers)
            response = connection.getresponse()
            answer = response.read()
        except ConnectionRefusedError as refused:
            raise ConnectionRefusedError("%s: nothing listens there; start postrider run with this address in http.listen" % self._address) from refused
        finally:
            connection.close()
        if response.status in (200, 201, 202):
            self._over()
            return json.loads(answer)
        error = _refusal(answer)
        text = "%s: %s" % (self._address, error.get("message") or "%d %s to %s; is this the address of http.listen?" % (
            response.status, response.reason, path))
        if response.status in (429, 500, 502, 503, 504):
            raise http.client.HTTPException(text)
        if error.get("code") == "version_conflict":
            raise VersionConflict(error["message"], error["expected_version"], error["version"])
        hint = "; " + error["hint"] if error.get("hint") else ""
        raise (NotFound if error.get("code") == "not_found" else RuntimeError)(text + hint)

    def again(self, trouble: BaseException) -> None:
        """A request failed and is tried again. Each trouble is said once, however many threads and attempts meet it."""
        text = str(trouble) or type(trouble).__name__
        with self._lock:
            if text == self._trouble:
                return
            self._trouble = text
        log.warning("%s; trying again until it is over", text if self._address in text else "%s: %s" % (self._address, text))

    def _over(self) -> None:
        with self._lock:
            trouble, self._trouble = self._trouble, ""
        if trouble:
            log.warning("%s: it answers again", self._address)


# ---- Events -----------------------------------------------------------------------------------


@dataclass
class Event(_Content):
    """One event of the event store; place is its place among all events, 0 where a stream was read."""
    stream: str
    version: int
    place: int
    id: str
    type: str
    payload: bytes
    headers: Dict[str, Any]
    created_at: str


def _bytes(fields: Mapping[str, Any]) -> bytes:
    return base64.b64decode(fields["payload_base64"]) if "payload_base64" in fields else (fields.get("payload") or "").encode()


def _event(e: Mapping[str, Any]) -> Event:
    return Event(e["stream"], e["version"], e.get("place", 0), e["id"], e["type"], _bytes(e), e.get("headers") or {}, e["created_at"])


class Events:
    """The event store of a daemon: append, read, follow, project.

    Requests raise OSError or http.client.HTTPException when the daemon is away: try again, an append with the same message.id.
    tail() and project() try again themselves."""

    def __init__(self, url: str, *, token: Optional[str] = None, wait: int = 20, page: int = 500):
        self._daemon, self._wait, self._page = _Daemon(url, token, wait + 40), wait, page

    def append(self, message: Message, expected_version: Optional[int] = None) -> int:
        """Store an event and send its message; returns the version that it got. Raises VersionConflict."""
        m = replace(message, event=True, expected_version=message.expected_version if expected_version is None else expected_version)
        body = _effect(m)
        return self._daemon.ask("/v1/events?box=" + body.pop("box"), body)["version"]

    def read(self, stream: str, from_version: int = 1) -> Iterator[Event]:
        """The events of a stream from a version on."""
        name, more = urllib.parse.quote(stream, safe=""), True
        while more:
            page = self._daemon.ask("/v1/events?stream=%s&from=%d&limit=%d" % (name, from_version, self._page))
            yield from (_event(e) for e in page["events"])
            from_version, more = page["next"] + 1, page["more"]

    def read_all(self, after: int = 0) -> Iterator[Event]:
        """All events behind a place, in their order."""
        more = True
        while more:
            page = self._daemon.ask("/v1/events?after=%d&limit=%d" % (after, self._page))
            yield from (_event(e) for e in page["events"])
            after, more = page["next"], page["more"]

    def tail(self, after: int = 0) -> Iterator[Event]:
        """All events behind a place, and those that come: it never ends. While the daemon is away it tries again."""
        pause = 0.2
        while True:
            try:
                page = self._daemon.ask("/v1/events?after=%d&limit=%d&wait=%ds" % (after, self._page, self._wait))
            except (OSError, http.client.HTTPException) as trouble:
                self._daemon.again(trouble)
                time.sleep(pause)
                pause = min(pause * 2, 30)
                continue
            pause = 0.2
            yield from (_event(e) for e in page["events"])
            after = page["next"]

    def snapshot(self, stream: str) -> Optional[Tuple[int, bytes]]:
        """The version and the data of the latest snapshot of a stream; go on with read(stream, version + 1)."""
        try:
            s = self._daemon.ask("/v1/snapshots?stream=" + urllib.parse.quote(stream, safe=""))
        except KeyError:
            return None
        return s["version"], _bytes(s)

    def save_snapshot(self, stream: str, version: int, data: Payload) -> bool:
        """False: there is a later one, which stays."""
        content = _content(data)
        coded = {"payload_base64": base64.b64encode(content).decode()} if isinstance(content, bytes) else {"payload_text": content or ""}
        return self._daemon.ask("/v1/snapshots", {"stream": stream, "version": version, **coded})["saved"]

    def project(self, name: str, handler: Callable[[List[Event]], None], *, worker: Optional[str] = None, batch: int = 100,
                lease: int = 30, stop: Optional[threading.Event] = None) -> None:
        """Hand the events behind the position of a subscription to the handler, batch by batch, until stop is set.

        One worker at a time has it. When the handler returns, the position moves; when it raises, it does not, and the exception
        goes on. A batch comes again when this process dies before its acknowledgement."""
        stop, fence, path, pause = stop or threading.Event(), 0, "/v1/subscriptions/%s/" % urllib.parse.quote(name, safe=""), 0.2
        wish = {"worker": worker or "%s/%s" % (socket.gethostname(), uuid7().hex[-8:]), "max": batch, "lease": "%ds" % lease,
                "wait": "%ds" % min(self._wait, lease // 2 or 1)}
        done = 0  # the place of what was handled and is not acknowledged
        while not stop.is_set():
            try:
                if done:
                    self._daemon.ask(path + "acknowledge", {"fence": fence, "position": done, "lease": wish["lease"]})
                done = 0
                claim = self._daemon.ask(path + "claim", {**wish, "fence": fence})
            except (OSError, http.client.HTTPException) as trouble:
                self._daemon.again(trouble)
                stop.wait(pause)
                pause = min(pause * 2, 30)
                continue
            fence, pause = claim["fence"] if claim["held_by"] is None else 0, 0.2
            if claim["events"]:
                handler([_event(e) for e in claim["events"]])
                done = claim["events"][-1]["place"]
        if done:
            self._daemon.ask(path + "acknowledge", {"fence": fence, "position": done})
        if fence:
            self._daemon.ask(path + "release", {"fence": fence})


# ---- Flows ------------------------------------------------------------------------------------


@dataclass
class Flow:
    """A flow as it was when it was asked for; fields has all members of the answer."""
    id: str
    name: str
    version: str
    execution: str
    state: str
    output: bytes
    error: Optional[Dict[str, Any]]
    custom_status: Optional[str]
    status_number: int
    fields: Mapping[str, Any]

    @property
    def ended(self) -> bool:
        return self.state in ("completed", "failed", "cancelled")

    def json(self) -> Any:
        return json.loads(self.output)


class FlowFailed(Exception):
    """It failed or was cancelled; flow says how."""

    def __init__(self, flow: Flow):
        super().__init__("flow %s %s: %s" % (flow.id, flow.state, (flow.error or {}).get("message", "")))
        self.flow = flow


def _flow(f: Mapping[str, Any]) -> Flow:
    output = base64.b64decode(f["output_base64"]) if "output_base64" in f else (f.get("output") or "").encode()
    return Flow(f["id"], f["name"], f["version"], f["execution"], f["state"], output, f["error"], f.get("custom_status"),
                f["status_number"], f)


def _data(name: str, payload: Payload) -> Dict[str, Any]:
    content = _content(payload)
    if content is None:
        return {}
    return {name + "_base64": base64.b64encode(content).decode()} if isinstance(content, bytes) else {name: content}


class Flows:
    """The flows of a daemon: start, tell, wait, ask.

    Requests raise OSError or http.client.HTTPException when the daemon is away: try again; a start with an id, and an event or mail
    with a message id, happens once. KeyError: there is no such flow."""

    def __init__(self, url: str, *, token: Optional[str] = None, wait: int = 20):
        self._daemon, self._wait = _Daemon(url, token, wait + 40), wait

    @staticmethod
    def _path(id: str, *rest: str) -> str:
        return "/".join(("/v1/flows", urllib.parse.quote(id, safe=""), *rest))

    def start(self, name: str, input: Payload = None, *, id: Optional[str] = None, version: Optional[str] = None, restart: bool = False) -> str:
        """Returns the id of the flow. One that exists is left alone; restart restarts one that has ended."""
        wish = {"name": name, "id": id or str(uuid7()), "version": version, "restart": restart or None}
        body = {k: v for k, v in wish.items() if v is not None}
        return self._daemon.ask("/v1/flows", {**body, **_data("input", input)})["id"]

    def raise_event(self, id: str, name: str, data: Payload = None, *, message: Optional[str] = None) -> None:
        self._daemon.ask(self._path(id, "raise"), {"name": name, "message": message or str(uuid7()), **_data("data", data)})

    def send(self, id: str, mailbox: str, data: Payload = None, *, message: Optional[str] = None) -> None:
        self._daemon.ask(self._path(id, "send"), {"name": mailbox, "message": message or str(uuid7()), **_data("data", data)})

    def cancel(self, id: str, why: str = "") -> None:
        self._daemon.ask(self._path(id, "cancel"), {"why": why})

    def get(self, id: str) -> Flow:
        """With what it waits for in fields["waits_for"]."""
        return _flow(self._daemon.ask(self._path(id)))

    def history(self, id: str) -> List[Dict[str, Any]]:
        return self._daemon.ask(self._path(id, "history"))["events"]

    def wait(self, id: str, *, timeout: Optional[float] = None) -> Flow:
        """Until it has ended. FlowFailed: it failed or was cancelled. TimeoutError: it has not ended in this many seconds."""
        flow = self._wait_for(id, -1, timeout)
        if flow.state != "completed":
            raise FlowFailed(flow)
        return flow

    def wait_status(self, id: str, after_number: int = 0, *, timeout: Optional[float] = None) -> Flow:
        """Until its custom status has changed since that number, or it has ended."""
        return self._wait_for(id, after_number, timeout)

    def _wait_for(self, id: str, after: int, timeout: Optional[float]) -> Flow:
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = self._wait if end is None else min(self._wait, max(end - time.monotonic(), 0))
            path = self._path(id, "wait?timeout=%dms" % (left * 1000)) + ("&after_number=%d" % after if after >= 0 else "")
            answer = self._daemon.ask(path)
            if not answer["timeout"]:
                return _flow(answer)
            if end is not None and time.monotonic() >= end:
                raise TimeoutError("flow %s is still running" % id)

    def delete(self, id: str, *, force: bool = False) -> None:
        self._daemon.ask(self._path(id) + ("?force=1" if force else ""), method="DELETE")


# ---- Requests ---------------------------------------------------------------------------------


@dataclass
class Reply(_Content):
    """The reply to a request."""
    id: str
    type: str
    payload: bytes
    headers: Dict[str, Any]
    fields: Dict[str, Any] = field(repr=False)  # all that the daemon says of it


class RequestTimeout(TimeoutError):
    """There is no reply yet. The request goes on: resume(error.id) waits on, also in another process."""

    def __init__(self, the_id: str):
        super().__init__("there is no reply to request %s yet" % the_id)
        self.id = the_id


class NoReply(Exception):
    """There will be no reply. state is "dead", "gone" (discarded or expired), or "unknown" (never sent, or long ago)."""

    def __init__(self, the_id: str, state: str):
        super().__init__("there will be no reply to request %s: it is %s" % (the_id, state))
        self.id, self.state = the_id, state


class Requests:
    """Messages that wait for a reply. Both are stored: nothing is lost when the caller, the daemon or the worker restarts."""

    def __init__(self, url: str, *, token: Optional[str] = None, wait: int = 20):
        self._daemon, self._wait = _Daemon(url, token, wait + 40), wait

    def request(self, message: Message, *, deadline: float = 20, reply_to: Optional[str] = None) -> Reply:
        """Store a request and wait for its reply, at most deadline seconds. Raises RequestTimeout and NoReply.

        The message.id of a request that was sent before does not send it again, it waits for its reply. reply_to is an endpoint of
        the daemon that handles the request, where that works on another store."""
        m = replace(message, id=message.id or uuid7())
        body = _effect(m)
        if reply_to is not None:
            body["reply_to"] = reply_to
        return self._await(str(m.id), body, deadline)

    def resume(self, id: Union[str, uuid.UUID], *, deadline: float = 20) -> Reply:
        """Wait for the reply to a request that was sent before, by any process. Raises RequestTimeout and NoReply."""
        return self._await(str(id), None, deadline)

    def _await(self, the_id: str, body: Optional[Dict[str, Any]], deadline: float) -> Reply:
        end, path, pause = time.monotonic() + deadline, "/v1/requests", 0.05
        unsent = body is not None  # as far as this process knows
        send = unsent
        while True:
            left = max(end - time.monotonic(), 0)
            wait = "%dms" % (min(left, self._wait) * 1000)
            try:
                answer = self._daemon.ask(path, {**(body or {}), "wait": wait}) if send else \
                    self._daemon.ask("%s/%s?wait=%s" % (path, urllib.parse.quote(the_id, safe=""), wait))
                state, unsent, send = answer["state"], False, False
            except KeyError:
                if not unsent:
                    raise NoReply(the_id, "unknown") from None
                send = True
                continue
            except (OSError, http.client.HTTPException) as trouble:
                if left <= pause:
                    raise RequestTimeout(the_id) from trouble
                self._daemon.again(trouble)
                time.sleep(pause)
                pause, send = min(pause * 2, 5), False  # it may have been stored: look first
                continue
            if state == "replied":
                r = answer["reply"]
                return Reply(r["id"], r["type"], _bytes(r), r.get("headers") or {}, dict(r))
            if state != "waiting":
                raise NoReply(the_id, state)
            if left <= 0:
                raise RequestTimeout(the_id)


# ---- Working, the rest ------------------------------------------------------------------------


class _Claims:
    """What is claimed and not ended, so that it can be renewed before it expires."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.renew_at: Dict[str, Tuple[float, float]] = {}  # token: when, and after how long again
        self.ends: Dict[str, float] = {}  # token: when the claim ends, unless it is renewed
        self.lost: Set[str] = set()  # tokens of claims that have ended without us

    def add(self, claims: Iterable[Mapping[str, Any]]) -> None:
        now, wall = time.monotonic(), time.time()
        with self.lock:
            for c in claims:
                expires = datetime.fromisoformat(c["expires_at"].replace("Z", "+00:00")).timestamp()
                third = max((expires - wall) / 3, 0.05)
                self.renew_at[c["token"]] = (now + third, third)
                self.ends[c["token"]] = now + 3 * third

    def remove(self, tokens: Iterable[str]) -> None:
        with self.lock:
            for token in tokens:
                self.renew_at.pop(token, None)
                self.ends.pop(token, None)
                self.lost.discard(token)

    def renewed(self, asked_at: float, results: Iterable[Mapping[str, Any]]) -> None:
        """What the daemon answered to a renewal that was asked for then."""
        with self.lock:
            for r in results:
                token = r["token"]
                if r["result"] != "ok" and self.renew_at.pop(token, None):
                    self.lost.add(token)
                elif token in self.renew_at:
                    self.ends[token] = asked_at + 3 * self.renew_at[token][1]

    def is_lost(self, token: str) -> bool:
        """The daemon said so, or did not answer in time: the message comes again, to any worker that asks."""
        with self.lock:
            return token in self.lost or self.ends.get(token, 0) < time.monotonic()

    def due(self) -> List[str]:
        now = time.monotonic()
        with self.lock:
            due = [token for token, (at, _) in self.renew_at.items() if at <= now]
            for token in due:
                self.renew_at[token] = (now + self.renew_at[token][1], self.renew_at[token][1])
        return due


class ActivityFailed(Exception):
    """Raised by an activity: it failed, and is tried again by its retry policy.

    retryable=False: its flow gets the error at once. retry_after="30s": not before that."""

    def __init__(self, error: str, *, retryable: bool = True, retry_after: Optional[str] = None):
        super().__init__(error)
        self.retryable, self.retry_after = retryable, retry_after


@dataclass
class Activity(_Content):
    """An activity of a flow that this worker does. payload is its input."""
    id: str  # the same in each attempt: use it as an idempotency key
    name: str
    attempt: int
    payload: bytes
    flow: str
    execution: str
    number: int  # among the tasks of the execution
    tag: Optional[str]
    session: Optional[str]
    _lost: Callable[[], bool] = field(repr=False)

    def is_cancelled(self) -> bool:
        """The flow no longer waits for this activity, or another worker has it: stop, its return value is ignored."""
        return self._lost()


Handler = Callable[[Received], Optional[Iterable[Message]]]


class Worker:
    """Claims messages from a daemon (an endpoint with url: "pull:") and hands them to handlers.

    A handler that returns has completed its message; the messages it returns are stored in the same transaction. One that
    raises Fail, or anything else, has failed it: Postrider retries, or makes it a dead letter. Claims are renewed while a
    handler runs. A message can come twice when a worker dies: use message.id where that matters.

    types: patterns of the types that this worker asks for; True: those that it has handlers for. Without it the worker gets
    messages of all types, and fails those that it has no handler for."""

    def __init__(self, url: str, *, box: str = "inbox", endpoint: Optional[str] = None, token: Optional[str] = None,
                 threads: int = 4, batch: int = 10, wait: int = 20, types: Union[None, bool, Iterable[str]] = None):
        self._daemon = _Daemon(url, token, wait + 40)
        self._wish: Dict[str, Any] = {"box": box, "max": batch, "wait": "%ds" % wait}
        if endpoint is not None:
            self._wish["endpoint"] = endpoint
        if isinstance(types, str):
            raise TypeError("types: must be a list of patterns, or True")
        self._types = types if types is None or isinstance(types, bool) else list(types)
        self._threads = threads
        self._handlers: List[Tuple[str, Handler]] = []
        self._claims, self._stop = _Claims(), threading.Event()
        self._fault: Optional[BaseException] = None

    def handle(self, pattern: str) -> Callable[[Handler], Handler]:
        """A decorator: this function handles messages whose type matches the pattern; the first that matches does."""
        def register(handler: Handler) -> Handler:
            self._handlers.append((pattern, handler))
            return handler
        return register

    def stop(self) -> None:
        """From any thread or signal handler: run() returns when what is being handled has ended."""
        self._stop.set()

    def run(self) -> None:
        """Work until stop(). Raises RuntimeError when the daemon refuses this worker: a wrong token, box or endpoint."""
        if self._types:
            self._wish["types"] = [pattern for pattern, _ in self._handlers] if self._types is True else self._types
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self._threads)]
        threads.append(threading.Thread(target=self._renew, daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)  # so that signals are heard
        if self._fault is not None:
            raise RuntimeError(str(self._fault))

    # ---- One request ----

    def _persist(self, path: str, body: Mapping[str, Any], patient: bool) -> Optional[Dict[str, Any]]:
        """Again and again, more and more slowly, until it is answered. None: stopped meanwhile, or (not patient) at once."""
        pause = 0.2
        while True:
            try:
                return self._daemon.ask(path, body)
            except (OSError, http.client.HTTPException) as trouble:
                self._daemon.again(trouble)
                if not patient or self._stop.wait(pause):
                    return None
                pause = min(pause * 2, 30)

    # ---- Threads ----

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                answer = self._persist("/v1/claims", self._wish, patient=True)
                claims = answer["claims"] if answer is not None else []
                self._claims.add(claims)
                for claim in claims:
                    self._handle(claim)
        except Exception as fault:  # a thread must not end alone
            self._fault = self._fault or fault
            self._stop.set()

    def _handle(self, claim: Mapping[str, Any]) -> None:
        if self._claims.is_lost(claim["token"]):  # while it waited for the one before it
            self._claims.remove([claim["token"]])
            log.warning("message %s: its claim has ended before it was handled; it comes again", claim["message"]["id"])
            return
        verb, verdict = "release", {"token": claim["token"]}  # stopped before it began: nothing is counted
        if not self._stop.is_set():
            verb, more = self._outcome(claim)
            verdict.update(more)
        try:
            answer = self._persist("/v1/claims/" + verb, {"claims": [verdict]}, patient=True)
        except RuntimeError as refused:  # what the handler returned cannot be stored: that is its failure
            verb, verdict = "fail", {"token": claim["token"], "reason": "handler_exception", "error": ascii(str(refused))[:500]}
            answer = self._persist("/v1/claims/fail", {"claims": [verdict]}, patient=True)
        finally:
            self._claims.remove([claim["token"]])
        result = answer["results"][0] if answer is not None else {"result": "unknown"}
        if result["result"] == "conflict":  # another one was quicker: the handler is asked again
            log.info("message %s: %s; it comes again", claim["message"]["id"], result["error"])
        elif result["result"] != "ok":
            log.warning("message %s: %s was not recorded (%s); it may come again", claim["message"]["id"], verb, result["result"])

    def _call(self, claim: Mapping[str, Any], handler: Callable[..., Any]) -> Dict[str, Any]:
        returned = handler(_received(claim)) or ()
        messages = list(returned) if isinstance(returned, Iterable) and not isinstance(returned, Mapping) else [returned]
        if not all(isinstance(m, Message) for m in messages):
            raise TypeError("a handler returns nothing or a list of postrider.Message, not %s" % type(returned).__name__)
        effects = [_effect(m) for m in messages]
        return {"effects": effects} if effects else {}

    def _outcome(self, claim: Mapping[str, Any]) -> Tuple[str, Dict[str, Any]]:
        message = claim["message"]
        handler = next((h for pattern, h in self._handlers if fnmatch.fnmatchcase(message["type"], pattern)), None)
        try:
            if handler is None:
                raise Fail("destination_missing", "this worker has no handler for messages of type %s" % message["type"])
            return "complete", self._call(claim, handler)
        except ActivityFailed as failed:
            more = {"reason": "handler_exception", "error": str(failed), "retry_after": failed.retry_after}
            return "fail", {**{name: value for name, value in more.items() if value}, "retryable": failed.retryable}
        except Fail as fail:
            if handler is None:
                log.warning("message %s: %s", message["id"], fail)
            more = {"reason": fail.reason, "error": str(fail), "code": fail.code, "retry_after": fail.retry_after,
                    "release_followers": fail.release_followers}
            return "fail", {name: value for name, value in more.items() if value}
        except Exception as error:
            log.exception("the handler of message %s failed", message["id"])
            return "fail", {"reason": "handler_exception", "error": "%s: %s" % (type(error).__name__, error)}

    def _renew(self) -> None:
        while not self._stop.wait(0.05) or self._claims.renew_at:
            if self._stop.is_set():
                time.sleep(0.05)
            due = self._claims.due()
            if due:
                try:
                    asked_at = time.monotonic()
                    answer = self._persist("/v1/claims/renew", {"claims": [{"token": token} for token in due]}, patient=False)
                    self._claims.renewed(asked_at, answer["results"] if answer is not None else ())
                except RuntimeError as trouble:
                    log.warning("%s", trouble)


class ActivityWorker(Worker):
    """Does activities of flows: the box activities has a route to an endpoint with url: "pull:".

    What a function returns is what its flow gets: text, bytes, or anything that can be JSON. One that raises has failed: it is tried
    again by the retry policy that the flow gave it, then its flow gets the error. tags: what this worker offers; an activity with a
    tag comes only to workers that offer it."""

    def __init__(self, url: str, *, tags: Iterable[str] = (), box: str = "activities", endpoint: Optional[str] = None,
                 token: Optional[str] = None, threads: int = 4, wait: int = 20):
        super().__init__(url, box=box, endpoint=endpoint, token=token, threads=threads, batch=1, wait=wait)
        self._wish["tags"] = list(tags)

    def activity(self, name: str) -> Callable[[Callable[[Activity], Payload]], Callable[[Activity], Payload]]:
        """A decorator: this function does activities of this name, which may be a pattern."""
        return self.handle(name)

    def _call(self, claim: Mapping[str, Any], handler: Callable[..., Any]) -> Dict[str, Any]:
        m, token = claim["message"], claim["token"]
        headers = m["headers"]
        return _data("output", handler(Activity(
            m["id"], m["type"], claim["attempt"], _bytes(m), headers["flow"], headers["execution"], headers["task"],
            headers.get("tag"), m.get("stream"), lambda: self._claims.is_lost(token))))
