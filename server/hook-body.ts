/** Reads the body of a webhook: as it arrived, of limited size, and within the memory that all such bodies have. */
import { MOST_PAYLOAD_BYTES } from '../domain/delivery/delivery.ts';
import { AppError } from '../app/app-error.ts';
import { createRequestError } from './problems.ts';

/** The memory for bodies of webhooks. A stranger decides about these bytes until their proof is checked. */
export interface HookMemory {
  /** @throws HookBusy, and takes nothing */
  take(address: string | null, bytes: number): void;
  release(address: string | null, bytes: number): void;
}

export interface HookMemoryLimits {
  readonly hookBytes: number;
  readonly hookBytesOfAddress: number;
}

export class HookBusy extends AppError {
  readonly retryAfterSeconds = 1;

  constructor() {
    super('environment', 'api/busy', 'too many bodies of webhooks arrive at the same time');
    this.name = 'HookBusy';
  }
}

export function createHookMemory({ hookBytes, hookBytesOfAddress }: HookMemoryLimits): HookMemory {
  let all = 0;
  const ofAddress = new Map<string | null, number>();
  return {
    take(address, bytes) {
      const own = (ofAddress.get(address) ?? 0) + bytes;
      if (all + bytes > hookBytes || own > hookBytesOfAddress) throw new HookBusy();
      all += bytes;
      ofAddress.set(address, own);
    },
    release(address, bytes) {
      all -= bytes;
      const own = (ofAddress.get(address) ?? 0) - bytes;
      if (own <= 0) ofAddress.delete(address);
      else ofAddress.set(address, own);
    },
  };
}

export interface HookBodyOptions {
  readonly announced: string | undefined;
  readonly address: string | null;
  readonly memory: HookMemory;
}

/**
 * Reads a body and calls `use` with it. The memory is free again once the work has ended.
 * @throws AppError `api/too-large`, `api/busy`, `api/invalid-request` if the connection ends before
 */
export async function useHookBody<T>(
  body: ReadableStream<Uint8Array> | null,
  { announced, address, memory }: HookBodyOptions,
  use: (bytes: Uint8Array) => Promise<T>,
): Promise<T> {
  const createSizeError = (): AppError =>
    createRequestError('api/too-large', `the body of an event has at most ${MOST_PAYLOAD_BYTES} bytes`);
  if (Number(announced ?? 0) > MOST_PAYLOAD_BYTES) throw createSizeError();
  let taken = 0;
  try {
    const chunks: Uint8Array[] = [];
    for await (const chunk of readChunks(body)) {
      if (taken + chunk.byteLength > MOST_PAYLOAD_BYTES) throw createSizeError();
      memory.take(address, chunk.byteLength);
      taken += chunk.byteLength;
      chunks.push(chunk);
    }
    return await use(Buffer.concat(chunks));
  } finally {
    memory.release(address, taken);
  }
}

async function* readChunks(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array, void, void> {
  if (body === null) return;
  // The stream is not cancelled: that would end the connection before its answer.
  const reader = body.getReader();
  for (;;) {
    const { done, value } = await reader.read().catch(throwCut);
    if (done) return;
    yield value;
  }
}

/** No client reads the answer, but the log must not call it a bug. */
function throwCut(): never {
  throw createRequestError('api/invalid-request', 'the connection ended before the body');
}
