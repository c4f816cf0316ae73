/** One holder's right to drive a mock VM, until the hold is cut. */
import type { CodedError } from '../../domain/errors/coded-error.ts';

/**
 * Creates the error of a cut only when a call needs it. Usually no call does, and an abort signal with its error and
 * stack costs more than everything else that ends a mock VM.
 */
export class MockHold {
  readonly fence: number;
  #why: (() => CodedError) | null = null;
  readonly #listeners = new Set<(reason: CodedError) => void>();

  constructor(fence: number) {
    this.fence = fence;
  }

  /** Ends the hold, because of a newer holder, the VM's end, or the holder itself. The first reason is kept. */
  cut(why: () => CodedError): void {
    if (this.#why !== null) return;
    this.#why = why;
    const listeners = [...this.#listeners];
    this.#listeners.clear();
    for (const listener of listeners) listener(why());
  }

  /** @throws CodedError with the reason of the cut */
  check(): void {
    if (this.#why !== null) throw this.#why();
  }

  /** @returns a function that removes the listener */
  onCut(listener: (reason: CodedError) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}

/** The limits of a call: its caller's signal and its hold. */
export interface Bounds {
  /** @throws the reason that ended the call */
  check(): void;
  /** @returns a function that removes the listener */
  onEnd(listener: (reason: unknown) => void): () => void;
}

/** This avoids `AbortSignal.any`, whose weak references and finalizers slow down every command. */
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
