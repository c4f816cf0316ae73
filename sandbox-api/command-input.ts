/** Standard input of a command: a text, bytes, a source, or data that is written piece by piece. */
import { Buffer } from 'node:buffer';
import type { ExecRequest } from '../activities/ports/sandbox.ts';

/** Limit of bytes that are written but not sent yet; beyond it `write` waits. */
const HELD_BYTES = 256 * 1024;

type Source = ExecRequest['stdin'];

export function sourceOf(stdin: string | Uint8Array | AsyncIterable<Uint8Array> | undefined): Source {
  if (stdin === undefined) return null;
  if (typeof stdin === 'string' || stdin instanceof Uint8Array) {
    const bytes = typeof stdin === 'string' ? Buffer.from(stdin) : stdin;
    return { sizeBytes: bytes.length, open: (offset) => toStream(bytes.subarray(offset)) };
  }
  return { sizeBytes: null, open: () => stdin };
}

async function* toStream(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, void> {
  yield bytes;
}

/** Input from a person or a protocol. Memory is bounded: the writer waits while a command does not read. */
export class InputPipe {
  readonly source: NonNullable<Source> = { sizeBytes: null, open: () => this.#bytes() };
  readonly #held: Uint8Array[] = [];
  #heldBytes = 0;
  #isEnded = false;
  #isClosed = false;
  #changed: (() => void)[] = [];

  /** Resolves when there is room for more. @throws Error after `end`, and once the command has ended */
  async write(chunk: string | Uint8Array): Promise<void> {
    this.#refuseClosed();
    const bytes = Buffer.from(chunk as string);
    this.#held.push(bytes);
    this.#heldBytes += bytes.length;
    this.#wake();
    while (this.#heldBytes > HELD_BYTES && !this.#isClosed) await this.#change();
  }

  /** Ends the command's input after the data that was written. */
  end(): void {
    this.#isEnded = true;
    this.#wake();
  }

  /** The command no longer reads. */
  close(): void {
    this.#isClosed = true;
    this.#held.length = 0;
    this.#wake();
  }

  async *#bytes(): AsyncGenerator<Uint8Array, void, void> {
    for (;;) {
      const chunk = this.#held.shift();
      if (chunk !== undefined) {
        this.#heldBytes -= chunk.length;
        this.#wake();
        yield chunk;
      } else if (this.#isEnded || this.#isClosed) {
        return;
      } else {
        await this.#change();
      }
    }
  }

  #refuseClosed(): void {
    if (this.#isClosed) throw new Error('the command has ended and reads no more');
    if (this.#isEnded) throw new Error('its end was written already');
  }

  #wake(): void {
    for (const wake of this.#changed.splice(0)) wake();
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#changed.push(resolve));
  }
}
