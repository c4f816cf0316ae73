/** Observers hear each fact once, in order, one after the other, and can harm nothing. */
import type { Command } from '../../domain/step-machine/command.ts';
import type { ObserverMap } from '../../domain/step-machine/definition.ts';
import { errorFacts } from './drive-action.ts';

type Emit = Extract<Command, { type: 'emit' }>;
type Handler = (payload: unknown) => void | Promise<void>;

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
    this.#queue.push(() => handler.call(observers, copy));
    this.#running ??= this.#run();
  }

  /** A handler that writes to what it is told must not write to the session. */
  #copyOf(observer: string, payload: Emit['payload']): unknown {
    try {
      return structuredClone(payload);
    } catch (cause) {
      this.#warn(`observer ${observer}: its payload cannot be cloned (${errorFacts(cause).message}); it is told what JSON can say of it`);
      return JSON.parse(JSON.stringify(payload)) as unknown;
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
