/** Output of a mock's commands, limited like a keeper's: the first bytes up to the limit and the last MiB. */
import { Buffer } from 'node:buffer';
import type { Bounds } from './hold.ts';

const TAIL_BYTES = 1024 * 1024;
const READ_BYTES = 64 * 1024;

export type MockStream = 'stdout' | 'stderr';

interface Kept {
  readonly head: Buffer[];
  headBytes: number;
  tail: Buffer;
  receivedBytes: number;
}

export class MockSpool {
  readonly #maxBytes: number;
  readonly #streams: Readonly<Record<MockStream, Kept>> = { stdout: emptyStream(), stderr: emptyStream() };
  #isComplete = false;
  #changed: (() => void)[] = [];

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Returns false once the limit is exceeded. */
  append(stream: MockStream, bytes: Uint8Array): boolean {
    const kept = this.#streams[stream];
    kept.receivedBytes += bytes.length;
    const roomBytes = this.#maxBytes - this.#streams.stdout.headBytes - this.#streams.stderr.headBytes;
    const fits = kept.tail.length > 0 ? 0 : Math.max(0, Math.min(roomBytes, bytes.length));
    if (fits > 0) {
      kept.head.push(Buffer.from(bytes.subarray(0, fits)));
      kept.headBytes += fits;
    }
    if (fits < bytes.length)
      kept.tail = Buffer.from(Buffer.concat([kept.tail, bytes.subarray(fits)]).subarray(-TAIL_BYTES));
    this.#wake();
    return fits === bytes.length;
  }

  /** Ends the output: the end of the bytes after the limit becomes readable. */
  complete(): void {
    for (const kept of Object.values(this.#streams)) {
      if (kept.tail.length === 0) continue;
      kept.head.push(kept.tail);
      kept.headBytes += kept.tail.length;
      kept.tail = Buffer.alloc(0);
    }
    this.#isComplete = true;
    this.#wake();
  }

  sizeBytes(stream: MockStream): number {
    return this.#streams[stream].headBytes;
  }

  droppedBytes(): number {
    return Object.values(this.#streams).reduce((sum, kept) => sum + kept.receivedBytes - kept.headBytes, 0);
  }

  /** Yields bytes from an offset to the end, waiting for more. @throws the reason of its bounds */
  async *read(stream: MockStream, offset: number, bounds: Bounds): AsyncGenerator<Uint8Array, void, void> {
    const kept = this.#streams[stream];
    let at = offset;
    for (;;) {
      bounds.check();
      const chunk = chunkAt(kept, at);
      if (chunk !== null) {
        at += chunk.length;
        yield chunk;
      } else if (this.#isComplete) {
        return;
      } else {
        await this.#change(bounds);
      }
    }
  }

  #wake(): void {
    const waiting = this.#changed;
    this.#changed = [];
    for (const wake of waiting) wake();
  }

  #change(bounds: Bounds): Promise<void> {
    return new Promise((resolve, reject) => {
      const off = bounds.onEnd(reject);
      this.#changed.push(() => {
        off();
        resolve();
      });
    });
  }
}

function emptyStream(): Kept {
  return { head: [], headBytes: 0, tail: Buffer.alloc(0), receivedBytes: 0 };
}

function chunkAt(kept: Kept, offset: number): Buffer | null {
  let start = 0;
  for (const piece of kept.head) {
    if (offset < start + piece.length) return piece.subarray(offset - start, offset - start + READ_BYTES);
    start += piece.length;
  }
  return null;
}
