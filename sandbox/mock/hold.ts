/** One holder's right to drive a mock VM, until it is cut off. */
import type { CodedError } from '../../domain/errors/coded-error.ts';

/**
 * Why is made when somebody asks: mostly nobody does, and an abort signal with its error, whose stack nobody reads, costs more
 * than all else that ends a mock VM.
 */
export class MockHold {
  readonly fence: number;
  #why: (() => CodedError) | null = null;
  readonly #listeners = new Set<(reason: CodedError) => void>();

  constructor(fence: number) {
    this.fence = fence;
  }

  /** For a newer holder, for the VM's end, or when the holder lets go. The first reason stands. */
  cut(why: () => CodedError): void {
    if (this.#why !== null) return;
    this.#why = why;
    const listeners = [...this.#listeners];
    this.#listeners.clear();
    for (const listener of listeners) listener(why());
  }

  /** @throws CodedError why it was cut */
  check(): void {
    if (this.#why !== null) throw this.#why();
  }

  /** @returns how to hear of it no longer */
  onCut(listener: (reason: CodedError) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}

/** What ends a call: its caller's signal, or its hold. */
export interface Bounds {
  /** @throws the reason of what ended it */
  check(): void;
  /** @returns how to hear of it no longer */
  onEnd(listener: (reason: unknown) => void): () => void;
}

/** Not `AbortSignal.any`, whose weak references and finalizers weigh on every command. */
export function boundsOf(signal: AbortSignal, hold: MockHold): Bounds {
  return {
    check() {
      signal.throwIfAborted();
      hold.check();
    },
    onEnd(listener) {
      const onAbort = (): void => listener(signal.reason);
      signal.addEventListener('abort', onAbort, { once: true });
      const offCut = hold.onCut(listener);
      return () => {
        signal.removeEventListener('abort', onAbort);
        offCut();
      };
    },
  };
}
