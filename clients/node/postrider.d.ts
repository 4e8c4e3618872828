// Postrider for Node: see postrider.mjs.

export interface Message {
  type: string;
  /** Text and bytes are sent as they are, everything else as JSON. */
  payload?: unknown;
  stream?: string;
  destination?: string;
  id?: string;
  headers?: Record<string, string | number | boolean>;
  /** Not before this time, or so many milliseconds from now. */
  due?: Date | number;
  /** Not after this time, or so many milliseconds from now. */
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
}

export interface FailOptions { code?: string; retryAfter?: string }

/** Thrown by a handler: the message failed for this reason (validation_failure, dependency_failure, ...). */
export class Fail extends Error {
  constructor(reason: string, error?: string, options?: FailOptions);
  reason: string;
  code?: string;
  retryAfter?: string;
}

export interface WorkerOptions {
  box?: string;
  endpoint?: string;
  token?: string;
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

export class WebhookError extends Error {}

/** Checks the signature of a Standard Webhooks request; returns the webhook-id. */
export function verifyWebhook(secret: string | string[], headers: Record<string, string | string[] | undefined>,
  body: Uint8Array | string, tolerance?: number): string;
