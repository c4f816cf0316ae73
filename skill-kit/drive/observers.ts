/** Observers hear each fact once, in order, one after the other, and can harm nothing: neither by throwing nor by never ending. */
import type { Command } from '../../domain/step-machine/command.ts';
import type { ObserverMap } from '../../domain/step-machine/definition.ts';
import type { StepRecord } from '../../domain/step-machine/records.ts';
import { splitAddress } from '../../domain/step-machine/replay.ts';
import { errorFacts } from './action.ts';

type Emit = Extract<Command, { type: 'emit' }>;
type Handler = (payload: unknown) => void | Promise<void>;

/** How long one call is waited for; clients wait as long for their answers. */
export const OBSERVER_LIMIT_MS = 5_000;

/**
 * Completes the path in an event, if the path begins in records that the state no longer holds.
 * @param older  those records, of all frames
 */
export function withOlderPath(payload: Emit['payload'], frame: number, older: readonly StepRecord[]): Emit['payload'] {
  const before = older.flatMap((record) => (record.frame === frame ? [splitAddress(record.step)[1]] : []));
  return { ...payload, path: [...before, ...(payload['path'] as readonly string[])] };
}

export class Observers {
  readonly #warn: (message: string) => void;
  readonly #queue: (() => void | Promise<void>)[] = [];
  #running: Promise<void> | null = null;

  constructor(warn: (message: string) => void) {
    this.#warn = warn;
  }

  get isIdle(): boolean {
    return this.#running === null;
  }

  flushed(): Promise<void> {
    return this.#running ?? Promise.resolve();
  }

  tell(observers: ObserverMap | undefined, { observer, payload }: Emit): void {
    const handler = observers?.[observer] as Handler | undefined;
    if (handler === undefined) return;
    const copy = this.#copyOf(observer, payload);
    this.#queue.push(() => this.#within(observer, handler.call(observers, copy)));
    this.#running ??= this.#run();
  }

  /** Copies the payload, because a handler that writes to it must not change the session. */
  #copyOf(observer: string, payload: Emit['payload']): unknown {
    try {
      return structuredClone(payload);
    } catch (cause) {
      this.#warn(
        `observer ${observer}: its payload cannot be cloned (${errorFacts(cause).message}); it gets the JSON of it`,
      );
      return Object.fromEntries(Object.entries(payload).map(([key, value]) => [key, copyValue(value)]));
    }
  }

  /**
   * Waits until the call ends or its time is up. A call that takes longer continues, but the session does not wait for
   * it.
   */
  async #within(observer: string, call: void | Promise<void>): Promise<void> {
    if (call === undefined) return;
    let timer: NodeJS.Timeout | undefined;
    const over = new Promise<void>((resolve) => {
      timer = setTimeout(() => {
        this.#warn(
          `observer ${observer} has not ended after ${OBSERVER_LIMIT_MS / 1_000} s and is no longer waited for`,
        );
        resolve();
      }, OBSERVER_LIMIT_MS);
    });
    try {
      await Promise.race([call, over]);
    } finally {
      clearTimeout(timer);
    }
  }

  async #run(): Promise<void> {
    // Handlers never run inside the transition that they hear of.
    await Promise.resolve();
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      try {
        await next();
      } catch (cause) {
        this.#warn(`observer error: ${errorFacts(cause).message}`);
      }
    }
    this.#running = null;
  }
}

/** Returns a copy of the value by `structuredClone` or JSON; undefined for a circular value. */
function copyValue(value: unknown): unknown {
  for (const copied of [() => structuredClone(value), () => JSON.parse(JSON.stringify(value)) as unknown]) {
    try {
      return copied();
    } catch {
      // JSON is the second way; a circular value fails in both.
    }
  }
  return undefined;
}
