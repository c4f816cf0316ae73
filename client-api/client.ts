/** A client of the HTTP API, for Node and for pages of the service's own origin. */
import { Connection } from './connection.ts';
import { ApiError } from './errors.ts';
import { CLIENT_LIMITS, type ClientLimits } from './limits.ts';
import type { Blob, Health, Questions, Readiness, RetainedVm, RetainedVms, Version } from './openapi.ts';
import { type CallOptions, type ClientOptions, readTarget } from './options.ts';
import { createRunCalls, type RunCalls } from './runs.ts';
import { createSessionCalls, type SessionCalls } from './sessions.ts';

export interface Client {
  readonly runs: RunCalls;
  readonly blobs: BlobCalls;
  readonly sessions: SessionCalls;
  readonly vms: VmCalls;
  /** Lists the questions of open runs that wait for an answer; at most 1,000. `runs.answer` answers one. */
  questions(options?: CallOptions): Promise<Questions>;
  /** Whether the service answers. It needs no token. */
  health(options?: CallOptions): Promise<Health>;
  /** Whether runs can start now, and what is missing. */
  ready(options?: CallOptions): Promise<Readiness>;
  version(options?: CallOptions): Promise<Version>;
}

export interface BlobCalls {
  /** Uploads bytes, such as a tar for `uploads` of a start. The service gets nothing that it already has. */
  put(bytes: Uint8Array, options?: CallOptions): Promise<Blob>;
}

/** VMs that failed stages have kept. */
export interface VmCalls {
  list(options?: CallOptions): Promise<RetainedVms>;
  /** Ends a VM. Sent twice, the second call finds no VM, so it is sent once. */
  end(vm: { readonly runId: string; readonly stage: string }, options?: CallOptions): Promise<RetainedVm>;
}

/**
 * Makes a client of a service. It connects with the first call, and has nothing to close.
 * @throws TypeError for options that are wrong
 */
export function createClient(options: ClientOptions = {}): Client {
  return openClient(options, CLIENT_LIMITS);
}

export function openClient(options: ClientOptions, limits: ClientLimits): Client {
  const connection = new Connection(readTarget(options), limits);
  const readInfo =
    <T>(part: string) =>
    async ({ signal }: CallOptions = {}): Promise<T> =>
      (await connection.call({ path: [part], signal })).value as T;
  return {
    runs: createRunCalls(connection),
    blobs: { put: (bytes, { signal } = {}) => putBlob(connection, bytes, signal) },
    sessions: createSessionCalls(connection),
    vms: {
      list: readInfo('vms'),
      end: async ({ runId, stage }, { signal } = {}) =>
        (await connection.call({ method: 'DELETE', path: ['vms', runId, stage], signal })).value as RetainedVm,
    },
    questions: readInfo('questions'),
    health: readInfo('health'),
    ready: async ({ signal } = {}) => await readReadiness(connection, signal),
    version: readInfo('version'),
  };
}

/** The service answers with 503 if runs cannot start. */
async function readReadiness(connection: Connection, signal: AbortSignal | undefined): Promise<Readiness> {
  const { value } = await connection.call({ path: ['ready'], signal, accepts: 503 });
  return value as Readiness;
}

/** An upload has its time by its size: at 64 KiB a second. */
const BYTES_PER_MS = 64;

async function putBlob(connection: Connection, bytes: Uint8Array, signal: AbortSignal | undefined): Promise<Blob> {
  if (!(bytes instanceof Uint8Array)) throw new TypeError('`bytes` is no Uint8Array.');
  // Before the first wait, so that a later change of the array cannot make its hash wrong.
  const copy = bytes.slice();
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', copy));
  const path = ['blobs', [...digest].map((byte) => byte.toString(16).padStart(2, '0')).join('')];
  const isKnown = await connection.call({ path, signal }).then(
    ({ value }) => value,
    (error: unknown) => {
      if (error instanceof ApiError && error.code === 'api/no-blob') return null;
      throw error;
    },
  );
  if (isKnown !== null) return isKnown as Blob;
  const waitMs = copy.length / BYTES_PER_MS;
  const stored = await connection.call({ method: 'PUT', path, bytes: copy, signal, waitMs, isRepeatable: true });
  return stored.value as Blob;
}
