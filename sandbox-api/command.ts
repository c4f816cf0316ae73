/** One command of a sandbox, running or ended, for its own process or another one. */
import type { Exec, ExecExit } from '../activities/ports/sandbox.ts';
import type { InputPipe } from './command-input.ts';

/** How a command ended; `exitCode` is 128 + n for a signal, and `signal` is n. */
export type CommandEnd = Omit<ExecExit, 'cause'>;

export interface CommandState {
  readonly id: string;
  readonly isRunning: boolean;
}

export interface CommandInput {
  /** Resolves when there is room for more. */
  write(chunk: string | Uint8Array): Promise<void>;
  /** Closes standard input. */
  end(): void;
}

const NEVER = new AbortController().signal;

export class Command {
  readonly id: string;
  /** Null unless it was spawned here with `stdin: 'pipe'`. */
  readonly stdin: CommandInput | null;
  readonly #exec: Exec;

  /** @internal */
  constructor(id: string, exec: Exec, pipe: InputPipe | null) {
    this.id = id;
    this.stdin = pipe;
    this.#exec = exec;
    // A writer must not wait for a command that has ended.
    const close = (): void => pipe?.close();
    if (pipe !== null) exec.wait(NEVER).then(close, close);
  }

  /** All output from the first byte, including earlier output; ends with the command. */
  get stdout(): AsyncIterable<Uint8Array> {
    return this.output('stdout');
  }

  get stderr(): AsyncIterable<Uint8Array> {
    return this.output('stderr');
  }

  /** Streams the output from an offset, for a reader that has the bytes before it. */
  output(
    stream: 'stdout' | 'stderr',
    options: { readonly offset?: number; readonly signal?: AbortSignal } = {},
  ): AsyncIterable<Uint8Array> {
    return this.#exec.output(stream, options.offset ?? 0, options.signal ?? NEVER);
  }

  /** Resolves when the command has ended and all its output can be read. */
  wait(options: { readonly signal?: AbortSignal } = {}): Promise<CommandEnd> {
    return this.#exec.wait(options.signal ?? NEVER);
  }

  /** Signals the command and its process group. Default: SIGTERM. */
  kill(signal: 'SIGTERM' | 'SIGKILL' | 'SIGINT' = 'SIGTERM'): Promise<void> {
    return this.#exec.signal(signal);
  }

  /** Deletes the output of a command that has ended; `commands()` no longer lists it. */
  forget(): Promise<void> {
    return this.#exec.acknowledge();
  }
}
