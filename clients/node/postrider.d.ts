// Postrider for Node: see postrider.mjs.

export interface Message {
  type: string;
  /** Text and bytes are sent as they are, everything else as JSON. */
  payload?: unknown;
  stream?: string;
  destination?: string;
  id?: string;
  headers?: Record<string, string | number | boolean>;
  /** Not before this time, or this many milliseconds from now. */
  due?: Date | number;
  /** Not after this time, or this many milliseconds from now. */
  expires?: Date | number;
  /** Default "outbox". */
  box?: string;
  source?: string;
  subject?: string;
  contentType?: string;
  correlationId?: string;
  causationId?: string;
  traceparent?: string;
  tracestate?: string;
  event?: boolean;
  /** Of an event: the number of events that its stream must have; 0: none yet. */
  expectedVersion?: number;
}

export interface SendOptions {
  /** Postrider's schema on PostgreSQL; default "postrider". */
  schema?: string;
  /** The box's table on SQLite, where it has another name than the box. */
  table?: string;
}

interface PgClient { query(text: string, values: unknown[]): Promise<unknown> }
interface SqliteDatabase { prepare(text: string): { run(...values: any[]): unknown } }

/** Store a message through the caller's connection, in its open transaction; the id comes back. */
export function send(connection: PgClient, message: Message, options?: SendOptions): Promise<string>;
export function send(connection: SqliteDatabase, message: Message, options?: SendOptions): string;

export function uuid7(): string;

export interface Received {
  id: string;
  type: string;
  attempt: number;
  payload: Buffer;
  stream: string | null;
  headers: Record<string, unknown>;
  /** All that the daemon says of it. */
  fields: Record<string, unknown>;
  json(): any;
  text(): string;
  /** The reply to this request, for the handler to return: it is stored with the completion, once. */
  reply(message: Message): Message;
}

/** The stream of an event is at another version than expected: read it again before you retry. */
export class VersionConflict extends Error {
  expected: number;
  version: number;
}

export interface Event {
  stream: string;
  version: number;
  /** Among all events; 0 where a stream was read. */
  place: number;
  id: string;
  type: string;
  payload: Buffer;
  headers: Record<string, unknown>;
  createdAt: string;
  json(): any;
}

export interface EventsOptions {
  token?: string;
  /** Seconds that a request waits for events; default 20. */
  wait?: number;
  /** Events of one request; default 500. */
  page?: number;
  log?: (text: string) => void;
}

export interface ProjectOptions {
  worker?: string;
  batch?: number;
  /** Seconds that this worker has the subscription without a sign of life; default 30. */
  lease?: number;
  signal?: AbortSignal;
}

export class Events {
  constructor(url: string, options?: EventsOptions);
  /** Stores an event and sends its message; the version that it got comes back. Rejects with VersionConflict. */
  append(message: Message, expectedVersion?: number): Promise<number>;
  read(stream: string, fromVersion?: number): AsyncGenerator<Event>;
  readAll(after?: number): AsyncGenerator<Event>;
  /** All events behind a place, and those that come: it never ends. */
  tail(after?: number): AsyncGenerator<Event>;
  snapshot(stream: string): Promise<{ version: number; data: Buffer } | undefined>;
  /** False: there is a later one, which stays. */
  saveSnapshot(stream: string, version: number, data: unknown): Promise<boolean>;
  /** Hands the events behind the position of a subscription to the handler until the signal is aborted. */
  project(subscription: string, handler: (events: Event[]) => void | Promise<void>, options?: ProjectOptions): Promise<void>;
}

export interface Flow {
  id: string;
  name: string;
  version: string;
  execution: string;
  state: "running" | "completed" | "failed" | "cancelled";
  output: Buffer;
  error?: { category: string; message: string; retryable?: boolean; kind?: string; count?: number; limit?: number };
  customStatus?: string;
  statusNumber: number;
  /** All members of the answer; waits_for says what it waits for. */
  fields: Record<string, unknown>;
  json(): any;
}

/** It failed or was cancelled; flow says how. */
export class FlowFailed extends Error {
  constructor(flow: Flow);
  flow: Flow;
}

/** The flows of a daemon: start, tell, wait, ask. An error with code "not_found": there is no such flow. */
export class Flows {
  constructor(url: string, options?: { token?: string; wait?: number });
  /** The id of the flow comes back. One that exists is left alone; restart restarts one that has ended. */
  start(name: string, input?: unknown, options?: { id?: string; version?: string; restart?: boolean }): Promise<string>;
  /** message: an id, so that a repeated call raises it once. */
  raise(id: string, event: string, data?: unknown, options?: { message?: string }): Promise<void>;
  send(id: string, mailbox: string, data?: unknown, options?: { message?: string }): Promise<void>;
  cancel(id: string, why?: string): Promise<void>;
  get(id: string): Promise<Flow>;
  history(id: string): Promise<Record<string, unknown>[]>;
  /** Until it has ended. Rejects with FlowFailed, or after timeout seconds. */
  wait(id: string, options?: { timeout?: number }): Promise<Flow>;
  /** Until its custom status has changed since that number, or it has ended. */
  waitStatus(id: string, afterNumber?: number, options?: { timeout?: number }): Promise<Flow>;
  delete(id: string, options?: { force?: boolean }): Promise<void>;
}

export interface Reply {
  id: string;
  type: string;
  payload: Buffer;
  headers: Record<string, unknown>;
  /** All that the daemon says of it. */
  fields: Record<string, unknown>;
  json(): any;
  text(): string;
}

/** There is no reply yet. The request goes on: resume(error.id) waits on, also in another process. */
export class RequestTimeout extends Error { id: string }

/** There will be no reply. */
export class NoReply extends Error {
  id: string;
  /** "gone": discarded or expired; "unknown": never sent, or long ago. */
  state: "dead" | "gone" | "unknown";
}

export interface RequestsOptions {
  token?: string;
  /** Seconds that one HTTP request waits at most; default 20. */
  wait?: number;
  log?: (text: string) => void;
}

export interface RequestOptions {
  /** Seconds to wait for the reply; default 20. */
  deadline?: number;
  /** An endpoint of the daemon that handles the request, where that works on another store. */
  replyTo?: string;
}

/** Messages that wait for a reply. Both are stored: nothing is lost when the caller, the daemon or the worker restarts. */
export class Requests {
  constructor(url: string, options?: RequestsOptions);
  /** Stores a request and waits for its reply. The id of one that was sent before does not send it again. */
  request(message: Message, options?: RequestOptions): Promise<Reply>;
  /** Waits for the reply to a request that was sent before, by any process. */
  resume(id: string, options?: Pick<RequestOptions, "deadline">): Promise<Reply>;
}

/** releaseFollowers: those behind it in its stream do not wait for its retry. */
export interface FailOptions { code?: string; retryAfter?: string; releaseFollowers?: boolean }

/** Thrown by a handler: the message failed for this reason (validation_failure, dependency_failure, ...). */
export class Fail extends Error {
  constructor(reason: string, error?: string, options?: FailOptions);
  reason: string;
  code?: string;
  retryAfter?: string;
  releaseFollowers?: boolean;
}

export interface WorkerOptions {
  box?: string;
  endpoint?: string;
  token?: string;
  /** Patterns of the types that this worker asks for; true: those that it has handlers for. Otherwise it gets all types. */
  types?: string[] | true;
  /** Messages that are handled at once; default 10. */
  concurrency?: number;
  /** Seconds that a claim waits for messages; default 20. */
  wait?: number;
  log?: (text: string) => void;
}

export type Handler = (message: Received) => void | Message[] | Promise<void | Message[]>;

export class Worker {
  constructor(url: string, options?: WorkerOptions);
  /** This function handles messages whose type matches the pattern (* and ?); the first that matches does. */
  handle(pattern: string, handler: Handler): this;
  /** Works until stop(); rejects when the daemon refuses this worker. */
  run(): Promise<void>;
  /** run() resolves when what is being handled has ended. */
  stop(): void;
}

/** Thrown by an activity. retryable false: its flow gets the error at once, whatever its retry policy says. */
export class ActivityFailed extends Error {
  constructor(error: string, options?: { retryable?: boolean; retryAfter?: string });
  retryable: boolean;
  retryAfter?: string;
}

export interface Activity {
  /** The same in each attempt: use it as an idempotency key. */
  id: string;
  name: string;
  attempt: number;
  /** Its input. */
  payload: Buffer;
  flow: string;
  execution: string;
  /** Among the tasks of the execution. */
  number: number;
  tag?: string;
  session?: string;
  /** Aborted when the flow no longer waits for this activity, or another worker has it: its return value is ignored. */
  signal: AbortSignal;
  json(): any;
  text(): string;
}

export interface ActivityWorkerOptions extends WorkerOptions {
  /** What this worker offers: an activity with a tag comes only to workers that offer it. */
  tags?: string[];
}

/** Does activities of flows: the box activities has a route to an endpoint with url: "pull:". */
export class ActivityWorker extends Worker {
  constructor(url: string, options?: ActivityWorkerOptions);
  /** This function does activities of this name, which may be a pattern (* and ?); what it returns is what the flow gets. */
  activity(name: string, handler: (activity: Activity) => unknown): this;
}

export class WebhookError extends Error {}

/** Checks the signature of a Standard Webhooks request; returns the webhook-id. */
export function verifyWebhook(secret: string | string[], headers: Record<string, string | string[] | undefined>,
  body: Uint8Array | string, tolerance?: number): string;
