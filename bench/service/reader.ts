/** Clients that follow a run as event streams, and count what they get. */
import { type IncomingMessage, request } from 'node:http';
import { performance } from 'node:perf_hooks';

export interface Reader {
  /** Settles when the reader has had so many events. */
  waitFor(events: number): Promise<void>;
  /** When each event arrived, in milliseconds. */
  readonly arrivedMs: readonly number[];
  /** Reads no more until the connection ends. */
  pause(): void;
  end(): void;
}

const EVENT = Buffer.from('\nid: ');
const FIRST = Buffer.from('id: ');

/** Opens a stream and waits for its answer. */
export async function openReader(socket: string, runId: string): Promise<Reader> {
  const arrivedMs: number[] = [];
  const waiting: { readonly events: number; readonly resolve: () => void }[] = [];
  let last = Buffer.alloc(0);
  const sent = request({
    socketPath: socket,
    path: `/api/v1/runs/${encodeURIComponent(runId)}/events`,
    headers: { accept: 'text/event-stream' },
    agent: false,
  });
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    sent.on('error', reject).on('response', resolve).end();
  });
  if (response.statusCode !== 200) throw new Error(`the stream has the status ${response.statusCode}`);
  response.on('error', () => undefined);
  response.on('data', (chunk: Buffer) => {
    const now = performance.now();
    const text = Buffer.concat([last, chunk]);
    for (let count = countEvents(text) - countEvents(last); count > 0; count -= 1) arrivedMs.push(now);
    // A mark of an event may lie across two chunks.
    last = Buffer.from(text.subarray(Math.max(0, text.byteLength - EVENT.byteLength + 1)));
    for (const { events, resolve } of waiting) if (arrivedMs.length >= events) resolve();
  });
  return {
    arrivedMs,
    waitFor: (events) =>
      arrivedMs.length >= events ? Promise.resolve() : new Promise((resolve) => void waiting.push({ events, resolve })),
    pause: () => void response.pause(),
    end: () => void response.destroy(),
  };
}

function countEvents(text: Buffer): number {
  let count = text.subarray(0, FIRST.byteLength).equals(FIRST) ? 1 : 0;
  for (let at = text.indexOf(EVENT); at !== -1; at = text.indexOf(EVENT, at + 1)) count += 1;
  return count;
}
