"""Postrider for Python: send messages in your own transaction, work messages off, verify webhooks.

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
import threading
import time
import urllib.parse
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Union

__all__ = ["Message", "Received", "Fail", "Worker", "WebhookError", "send", "verify_webhook", "uuid7"]

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
    connection.execute('INSERT INTO "%s" (%s) VALUES (%s)' % (table, ", ".join(columns), ", ".join("?" * len(columns))),
                       tuple(columns.values()))


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
    message is delivered if and only if the transaction commits. table is the box's table on SQLite where it has another name
    than the box (boxes: NAME: table:); schema is Postrider's schema on PostgreSQL."""
    m = type if isinstance(type, Message) else Message(type, payload, **fields)
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
    """Raised by a handler: the message failed for this reason (validation_failure, dependency_failure, ...)."""

    def __init__(self, reason: str, error: str = "", *, code: str = "", retry_after: Optional[str] = None):
        super().__init__(error or reason)
        self.reason, self.error, self.code, self.retry_after = reason, error, code, retry_after


@dataclass
class Received:
    """A message that this worker has claimed."""
    id: str
    type: str
    attempt: int
    payload: bytes
    stream: Optional[str]
    headers: Dict[str, Any]
    fields: Dict[str, Any] = field(repr=False)  # all that the daemon says of it

    def json(self) -> Any:
        return json.loads(self.payload)

    def text(self) -> str:
        return self.payload.decode()


def _received(claim: Mapping[str, Any]) -> Received:
    m = claim["message"]
    payload = base64.b64decode(m["payload_base64"]) if "payload_base64" in m else (m.get("payload") or "").encode()
    return Received(m["id"], m["type"], claim["attempt"], payload, m.get("stream"), m.get("headers") or {}, dict(m))


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
    return {name: value for name, value in effect.items() if value is not None}


class _Claims:
    """What is claimed and not ended, so that it can be renewed before it expires."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.renew_at: Dict[str, Tuple[float, float]] = {}  # token: when, and after how long again

    def add(self, claims: Iterable[Mapping[str, Any]]) -> None:
        now, wall = time.monotonic(), time.time()
        with self.lock:
            for c in claims:
                expires = datetime.fromisoformat(c["expires_at"].replace("Z", "+00:00")).timestamp()
                third = max((expires - wall) / 3, 0.05)
                self.renew_at[c["token"]] = (now + third, third)

    def remove(self, tokens: Iterable[str]) -> None:
        with self.lock:
            for token in tokens:
                self.renew_at.pop(token, None)

    def due(self) -> List[str]:
        now = time.monotonic()
        with self.lock:
            due = [token for token, (at, _) in self.renew_at.items() if at <= now]
            for token in due:
                self.renew_at[token] = (now + self.renew_at[token][1], self.renew_at[token][1])
        return due


Handler = Callable[[Received], Optional[Iterable[Message]]]


class Worker:
    """Claims messages from a daemon (an endpoint with url: "pull:") and hands them to handlers.

    A handler that returns has completed its message; the messages it returns are stored in the same transaction. One that
    raises Fail, or anything else, has failed it: Postrider retries, or makes it a dead letter. Claims are renewed while a
    handler runs. A message can come twice when a worker dies: use message.id where that matters."""

    def __init__(self, url: str, *, box: str = "inbox", endpoint: Optional[str] = None, token: Optional[str] = None,
                 threads: int = 4, batch: int = 10, wait: int = 20):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("url must be http://HOST:PORT or https://HOST:PORT")
        self._https, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._wish: Dict[str, Any] = {"box": box, "max": batch, "wait": "%ds" % wait}
        if endpoint is not None:
            self._wish["endpoint"] = endpoint
        self._headers = {"Content-Type": "application/json", "X-Postrider": "1"}
        if token is not None:
            self._headers["Authorization"] = "Bearer " + token
        self._threads, self._timeout = threads, wait + 40
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

    def _ask(self, path: str, body: Mapping[str, Any]) -> Dict[str, Any]:
        """OSError and HTTPException: try again. RuntimeError: it is no use."""
        kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout)
        try:
            connection.request("POST", path, json.dumps(body), self._headers)
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status == 200:
            return json.loads(answer)
        text = "%s: %d %s" % (path, response.status, answer[:500].decode("utf-8", "replace").strip())
        if response.status in (429, 500, 502, 503, 504):
            raise http.client.HTTPException(text)
        raise RuntimeError(text)

    def _persist(self, path: str, body: Mapping[str, Any], patient: bool) -> Optional[Dict[str, Any]]:
        """Again and again, more and more slowly, until it is answered. None: stopped meanwhile, or (not patient) at once."""
        pause = 0.2
        while True:
            try:
                return self._ask(path, body)
            except (OSError, http.client.HTTPException) as trouble:
                log.warning("%s; trying again in %.1f s", trouble, pause)
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
        verb, verdict = "release", {"token": claim["token"]}  # stopped before it began: nothing is counted
        if not self._stop.is_set():
            verb, more = self._outcome(_received(claim))
            verdict.update(more)
        try:
            answer = self._persist("/v1/claims/" + verb, {"claims": [verdict]}, patient=True)
        except RuntimeError as refused:  # what the handler returned cannot be stored: that is its failure
            verb, verdict = "fail", {"token": claim["token"], "reason": "handler_exception", "error": ascii(str(refused))[:500]}
            answer = self._persist("/v1/claims/fail", {"claims": [verdict]}, patient=True)
        finally:
            self._claims.remove([claim["token"]])
        result = answer["results"][0]["result"] if answer is not None else "unknown"
        if result != "ok":
            log.warning("message %s: %s was not recorded (%s); it may come again", claim["message"]["id"], verb, result)

    def _outcome(self, message: Received) -> Tuple[str, Dict[str, Any]]:
        handler = next((h for pattern, h in self._handlers if fnmatch.fnmatchcase(message.type, pattern)), None)
        try:
            if handler is None:
                raise Fail("destination_missing", "this worker has no handler for messages of type %s" % message.type)
            effects = [_effect(m) for m in handler(message) or ()]
            return "complete", {"effects": effects} if effects else {}
        except Fail as fail:
            more = {"reason": fail.reason, "error": str(fail), "code": fail.code, "retry_after": fail.retry_after}
            return "fail", {name: value for name, value in more.items() if value}
        except Exception as error:
            log.exception("the handler of message %s failed", message.id)
            return "fail", {"reason": "handler_exception", "error": "%s: %s" % (type(error).__name__, error)}

    def _renew(self) -> None:
        while not self._stop.wait(0.05) or self._claims.renew_at:
            if self._stop.is_set():
                time.sleep(0.05)
            due = self._claims.due()
            if due:
                try:
                    self._persist("/v1/claims/renew", {"claims": [{"token": token} for token in due]}, patient=False)
                except RuntimeError as trouble:
                    log.warning("%s", trouble)
