/**
 * Connects to one keeper: requests on one control connection, and a connection for each stream. Each is retried while
 * the run directory shows that the keeper lives. The error of a failure describes what happened to the VM.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { join } from 'node:path';
import { CodedError, isCodedError } from '../domain/errors/coded-error.ts';
import { cutText, FEATURES, readVmStatus, type Answer } from './api.ts';
import { ConnectionError, ControlConnection, connectKeeper } from './connection.ts';
import { isAlive, readRunDir } from './keeper-command.ts';
import { errorCodeOfEnd } from './keeper-code.ts';
import { startPatientLimit } from './disk-patience.ts';
import { StreamConnection } from './stream.ts';
import { opWords } from './op-words.ts';

/**
 * A keeper answers control requests immediately; without an answer for this long, the keeper or its host is stopped.
 */
export const REQUEST_LIMIT_MS = 30_000;
const LOOK_AGAIN_MS = 300;
/** A running keeper rejects connections only for moments: while it binds its socket, or while 64 are open. */
const CONNECT_ATTEMPTS = 5;
const CONNECT_PAUSE_MS = 200;

/** An existing VM, identified by its run directory. */
export interface KeeperPlace {
  /** The `voidbox-vm` binary. */
  readonly keeper: string;
  readonly dir: string;
  readonly vmKey: string;
}

export interface RequestOptions {
  readonly signal?: AbortSignal;
  /** Null: no limit while the connection is open. */
  readonly limitMs?: number | null;
}

export class KeeperLink {
  readonly vmKey: string;
  readonly dir: string;
  readonly #keeper: string;
  readonly #features: readonly string[];
  /** A keeper keeps its build for life, so its features are read once. */
  #listed: readonly string[] | null = null;
  #control: ControlConnection | null = null;
  #connecting: Promise<ControlConnection> | null = null;
  readonly #closed = new AbortController();

  /** @param features  the ops that a keeper of an earlier build lacks */
  constructor({ keeper, dir, vmKey }: KeeperPlace, features = FEATURES) {
    this.#keeper = keeper;
    this.#features = features;
    this.dir = dir;
    this.vmKey = vmKey;
  }

  /** The path of the guest's console, which has a size limit; for messages to users. */
  get consolePath(): string {
    return join(this.dir, 'console.log');
  }

  /** A signal that aborts when this client has detached. */
  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  /** Reports whether the keeper lives, according to the run directory. */
  async isAlive(): Promise<boolean> {
    return isAlive(await readRunDir(this.#keeper, this.dir));
  }

  /** Reports whether the VM's keeper has the op, for callers that can work without it. */
  async offers(op: string): Promise<boolean> {
    if (!this.#features.includes(op)) return true;
    this.#listed ??= readVmStatus(await this.request('status', {})).features;
    return this.#listed.includes(op);
  }

  /**
   * Sends a request. Every request may be repeated: the API is idempotent by fence, exec key and path.
   * @throws CodedError `vm/lost` if the keeper lacks the op; the same holds for `open`. A new VM would have a keeper of
   * this build
   */
  async request(op: string, fields: Readonly<Record<string, unknown>>, options: RequestOptions = {}): Promise<Answer> {
    await this.#requireOp(op);
    const limitMs = options.limitMs === undefined ? REQUEST_LIMIT_MS : options.limitMs;
    const limit = new AbortController();
    const stopLimit =
      limitMs === null
        ? undefined
        : startPatientLimit(this.dir, limitMs, () =>
            limit.abort(
              new CodedError('vm/lost', `VM ${this.vmKey}: its keeper did not answer in ${limitMs} ms, ${opWords(op)}`),
            ),
          );
    const { signal } = limit;
    const stopFollowing = followSignals(limit, [this.#closed.signal, options.signal]);
    try {
      return await this.#alive(signal, async () => (await this.#connection(signal)).request(op, fields, signal));
    } catch (error) {
      throw await this.explain(error);
    } finally {
      stopLimit?.();
      stopFollowing();
    }
  }

  async open(
    op: string,
    fields: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<{ readonly stream: StreamConnection; readonly answer: Answer }> {
    await this.#requireOp(op);
    const bound = new AbortController();
    const stopFollowing = followSignals(bound, [signal, this.#closed.signal]);
    try {
      const opened = await this.#alive(bound.signal, () => StreamConnection.open(this.dir, op, fields, bound.signal));
      opened.stream.onClose(stopFollowing);
      return opened;
    } catch (error) {
      stopFollowing();
      throw await this.explain(error);
    }
  }

  close(reason: Error): void {
    this.#closed.abort(reason);
    this.#control?.close(reason);
    this.#control = null;
  }

  /** Explains a broken connection: if the keeper is dead, the VM is lost; if it lives, the error stays as it is. */
  async explain(error: unknown): Promise<Error> {
    if (!(error instanceof ConnectionError)) return error as Error;
    if (this.#closed.signal.aborted) return this.#closed.signal.reason as Error;
    if (!(await this.isAlive())) return this.loss(error);
    // A killed keeper closes its connections a moment before its lock is free.
    await sleep(LOOK_AGAIN_MS);
    return (await this.isAlive()) ? error : this.loss(error);
  }

  async loss(cause?: unknown): Promise<CodedError> {
    const { state, exit } = await readRunDir(this.#keeper, this.dir);
    const why =
      exit === null
        ? `its keeper ended without a report (${state})`
        : `it ended: ${cutText(`${exit.reason}: ${exit.message}`)}`;
    const code = errorCodeOfEnd(exit?.code ?? '');
    return new CodedError(
      code,
      `VM ${this.vmKey}: ${why}; its console: ${this.consolePath}`,
      isCodedError(cause) || cause === undefined ? {} : { cause },
    );
  }

  async #requireOp(op: string): Promise<void> {
    if (await this.offers(op)) return;
    throw new CodedError(
      'vm/lost',
      `VM ${this.vmKey}: its keeper is of an earlier build and lacks an op: ${opWords(op)}`,
    );
  }

  /** Retries while the connection breaks and the run directory shows that the keeper lives. */
  async #alive<T>(signal: AbortSignal, attempt: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await attempt();
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof ConnectionError) || tries === CONNECT_ATTEMPTS) throw error;
        if (!(await this.isAlive())) throw await this.loss(error);
        await pause(CONNECT_PAUSE_MS * tries, signal);
      }
    }
  }

  async #connection(signal: AbortSignal): Promise<ControlConnection> {
    if (this.#control?.isOpen === true) return this.#control;
    this.#connecting ??= connectKeeper(this.dir, this.#closed.signal)
      .then((socket) => {
        this.#control = new ControlConnection(socket);
        if (this.#closed.signal.aborted) this.#control.close(this.#closed.signal.reason as Error);
        return this.#control;
      })
      .finally(() => (this.#connecting = null));
    const connection = await this.#connecting;
    signal.throwIfAborted();
    return connection;
  }
}

/**
 * Aborts the controller as soon as one of the signals does. `AbortSignal.any` takes ten times as long, and each command
 * has three requests.
 * @returns a function that lets go of the signals
 */
function followSignals(controller: AbortController, signals: readonly (AbortSignal | undefined)[]): () => void {
  const stops = signals.map((signal) => {
    if (signal === undefined) return null;
    const onAbort = (): void => controller.abort(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    return () => signal.removeEventListener('abort', onAbort);
  });
  return () => {
    for (const stop of stops) stop?.();
  };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    signal.addEventListener('abort', onAbort, { once: true });
  });
}
