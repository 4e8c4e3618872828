#!/usr/bin/env python3
"""A gate before a Kafka broker that has none of its own: TLS and SASL as the protocol has them.

  kafka_gate.py PORT BROKER_PORT [--tls FOLDER] [--sasl MECHANISM USER PASSWORD] [--lie]

The mock brokers of librdkafka know neither.  Whoever passes the gate speaks with the broker behind it, which tells the
gate's address as its own.  --tls: FOLDER has good.pem and good.key; clients need a certificate that good.pem vouches for.
Mechanisms are PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512; the exchange is that of RFC 4616 and RFC 5802."""
import argparse
import base64
import hashlib
import hmac
import os
import socket
import ssl
import struct
import threading

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
UNSUPPORTED_MECHANISM, AUTHENTICATION_FAILED = 33, 58
ROUNDS = 4096


class Refused(Exception):
    pass


def read_exactly(connection, size):
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionError
        data += chunk
    return data


def read_frame(connection):
    return read_exactly(connection, struct.unpack(">i", read_exactly(connection, 4))[0])


def write_frame(connection, data):
    connection.sendall(struct.pack(">i", len(data)) + data)


def plain(user, password):
    """Takes what the client says and yields the answers; raises Refused."""
    name, secret = (yield).split(b"\0")[1:]
    if (name, secret) != (user, password):
        raise Refused("Authentication failed: Invalid username or password")
    yield b""


def scram(algorithm, user, password):
    first = (yield).split(b",", 2)[2]
    fields = dict(f.split(b"=", 1) for f in first.split(b","))
    salt = os.urandom(16)
    nonce = fields[b"r"] + base64.b64encode(os.urandom(12))
    challenge = b"r=%s,s=%s,i=%d" % (nonce, base64.b64encode(salt), ROUNDS)
    final = yield challenge
    unproved, proof = final.rsplit(b",p=", 1)
    mac = lambda key, text: hmac.new(key, text, algorithm).digest()
    salted = hashlib.pbkdf2_hmac(algorithm, password, salt, ROUNDS)
    key = mac(salted, b"Client Key")
    said = b",".join((first, challenge, unproved))
    wanted = bytes(a ^ b for a, b in zip(key, mac(hashlib.new(algorithm, key).digest(), said)))
    # Kafka 3 looks at the end of the nonce alone, Kafka 4 at all of it: librdkafka before 2.6.1 repeats its own before it.
    if fields[b"n"] != user or not unproved.endswith(nonce) or base64.b64decode(proof) != wanted:
        raise Refused("Authentication failed: Invalid username or password")
    yield b"v=" + base64.b64encode(mac(mac(salted, b"Server Key"), said))


class Gate:
    def __init__(self, args):
        self.port, self.broker_port, self.lies = args.port, args.broker_port, args.lie
        self.mechanism, self.user, self.password = args.sasl or (None, None, None)
        self.tls = None
        if args.tls:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(args.tls + "/good.pem", args.tls + "/good.key")
            self.tls.load_verify_locations(args.tls + "/good.pem")
            self.tls.verify_mode = ssl.CERT_REQUIRED

    def exchange(self):
        user, password = self.user.encode(), self.password.encode()
        if self.mechanism == "PLAIN":
            return plain(user, password)
        return scram("sha" + self.mechanism.rsplit("-", 1)[1], user, password)

    def with_own_address(self, frame):
        """A name that is in the certificate, and by chance just as long."""
        return frame.replace(b"127.0.0.1" + struct.pack(">i", self.broker_port), b"localhost" + struct.pack(">i", self.port))

    @staticmethod
    def with_sasl(frame, version):
        """Adds the two requests of SASL to what the broker says it knows; before version 3 arrays have a long count and no tags."""
        head, tail = frame[:6], frame[6:]
        apis = ((SASL_HANDSHAKE, 0, 1), (SASL_AUTHENTICATE, 0, 0))
        if version >= 3:
            assert tail[0] < 120  # one byte is enough for the count
            return head + bytes([tail[0] + 2]) + b"".join(struct.pack(">hhhB", *api, 0) for api in apis) + tail[1:]
        return head + struct.pack(">i", struct.unpack(">i", tail[:4])[0] + 2) + b"".join(struct.pack(">hhh", *api) for api in apis) + tail[4:]

    def authenticate(self, client, broker):
        exchange, answers = None, 1 if self.mechanism == "PLAIN" else 2
        while True:
            frame = read_frame(client)
            api, version = struct.unpack(">hh", frame[:4])
            correlation = frame[4:8]
            if api == API_VERSIONS:
                write_frame(broker, frame)
                write_frame(client, self.with_sasl(read_frame(broker), version))
                continue
            body = frame[10 + struct.unpack(">h", frame[8:10])[0]:]  # behind the client's name
            if api == SASL_HANDSHAKE:
                good = body[2:].decode() == self.mechanism
                name = self.mechanism.encode()
                write_frame(client, correlation + struct.pack(">hi", 0 if good else UNSUPPORTED_MECHANISM, 1) + struct.pack(">h", len(name)) + name)
                exchange = self.exchange()
                next(exchange)
            elif api == SASL_AUTHENTICATE and exchange is not None:
                try:
                    answer = exchange.send(body[4:])
                except Refused as why:
                    text = str(why).encode()
                    write_frame(client, correlation + struct.pack(">hh", AUTHENTICATION_FAILED, len(text)) + text + struct.pack(">i", 0))
                    raise
                write_frame(client, correlation + struct.pack(">hhi", 0, -1, len(answer)) + answer)
                answers -= 1
                if answers == 0:
                    return
            else:
                raise Refused("not before the login")

    def answers(self, broker, client):
        try:
            while True:
                frame = self.with_own_address(read_frame(broker))
                write_frame(client, frame[:8] if self.lies else frame)  # it is cut off, and says that it is whole
        except OSError:
            pass
        finally:
            for end in (client, broker):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def serve(self, client):
        broker = socket.create_connection(("127.0.0.1", self.broker_port))
        try:
            if self.tls:
                client = self.tls.wrap_socket(client, server_side=True)
            if self.mechanism:
                self.authenticate(client, broker)
            threading.Thread(target=self.answers, args=(broker, client), daemon=True).start()
            while True:
                write_frame(broker, read_frame(client))
        except (OSError, Refused):
            pass
        finally:
            client.close()
            broker.close()

    def run(self):
        listener = socket.create_server(("127.0.0.1", self.port))
        while True:
            threading.Thread(target=self.serve, args=(listener.accept()[0],), daemon=True).start()


parser = argparse.ArgumentParser()
parser.add_argument("port", type=int)
parser.add_argument("broker_port", type=int)
parser.add_argument("--tls")
parser.add_argument("--sasl", nargs=3)
parser.add_argument("--lie", action="store_true")
Gate(parser.parse_args()).run()
