import { setTimeout as sleep } from 'node:timers/promises';
import { askOnTerminal, askSecretOnTerminal } from '../setup/ask-on-terminal.ts';
import type { Machine } from '../app/machine.ts';
import type { Environment } from '../setup/environment.ts';
import type { Stores } from '../store/stores.ts';
import { writeOwnCommand } from './own-command.ts';
import { createUsageError } from '../app/app-error.ts';
import { createStyle, type Style } from './render/text/style.ts';
import { withTypedCommands, type TypedName } from './typed-name.ts';
import { isFolderDescriptor } from '../files/folder-descriptor.ts';

/** The reader of an output has gone, as in `voidbox logs | head`. This is not an error. */
export class ReaderGone extends Error {
  constructor() {
    super('the reader of an output has gone');
    this.name = 'ReaderGone';
  }
}

const LAST_WORK_MS = 2_000;

/** One output of the process. */
export interface Sink {
  readonly isTerminal: boolean;
  /** The terminal can move its cursor up, so that printed lines can be redrawn. */
  readonly canRedraw: boolean;
  /** Columns of the terminal now; without one there is no limit, so that a pipe gets whole lines. */
  width(): number;
  /** Lines of the terminal now; without one there is no limit. */
  height(): number;
  /** Settles when the bytes have left our memory, so that a slow reader slows the writer. */
  write(data: string | Uint8Array): Promise<void>;
  readonly style: Style;
}

/** The input of a command; no file under `cli/commands` uses the process directly. */
export interface CliContext extends Machine {
  /** Results and data. */
  readonly stdout: Sink;
  /** Progress, diagnostics, errors. */
  readonly stderr: Sink;
  /**
   * Reads input as it arrives, no faster than the consumer reads; a terminal delivers lines. It also ends at the
   * signal.
   * @throws AppError
   */
  openStdin(signal: AbortSignal): AsyncIterable<Uint8Array>;
  /**
   * Asks for a secret, which the terminal does not show.
   * @returns null without a terminal, or if its input ended
   */
  askSecret(question: string): Promise<string | null>;
  /** Standard input is a terminal. */
  readonly hasTerminalInput: boolean;
  /**
   * Calls back once the reader of an output has gone, until disposed. The process ends after the callback's promise has
   * settled, after 2 s at the latest. Without a listener it ends at once.
   */
  onReaderGone(callback: () => Promise<unknown>): { dispose(): void };
  /** Returns the promise that the end of the process must wait for; null if it need not wait. */
  readerGone(): Promise<void> | null;
  /** Calls back for each Ctrl-C until disposed; without a listener Ctrl-C ends the process with 130. */
  onInterrupt(callback: () => void): { dispose(): void };
  /** Advice of ours, with its commands as they can be typed here: `voidbox logs` or `npx voidbox logs`. */
  advise(text: string): string;
  /** Ends what the command had opened. */
  close(): Promise<void>;
}

export interface ProcessLike {
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
  readonly stdin: NodeJS.ReadStream;
  cwd(): string;
}

/** @param commands  names of all commands, so that advice names them as they can be typed */
export function createContext(env: Environment, host: ProcessLike, commands: readonly string[]): CliContext {
  const interrupts = new Set<() => void>();
  const lastWork = new Set<() => Promise<unknown>>();
  let stores: Promise<Stores> | null = null;
  const onSignal = (): void => {
    for (const callback of interrupts) callback();
  };
  let ownCommand: TypedName | null = null;
  const stderr = createSink(host.stderr, env);
  return {
    env,
    cwd: host.cwd(),
    stdout: createSink(host.stdout, env),
    stderr,
    async readStdin() {
      refuseFolder(host.stdin);
      const chunks: Uint8Array[] = [];
      for await (const chunk of host.stdin)
        chunks.push(typeof chunk === 'string' ? Buffer.from(chunk) : (chunk as Uint8Array));
      return Buffer.concat(chunks);
    },
    openStdin: (signal) => openInput(host.stdin, signal),
    confirm: async (question) =>
      host.stdin.isTTY === true && host.stderr.isTTY === true ? await askOnTerminal(host, question) : null,
    askSecret: async (question) =>
      host.stdin.isTTY === true && host.stderr.isTTY === true ? await askSecretOnTerminal(host, question) : null,
    get hasTerminalInput() {
      return host.stdin.isTTY === true;
    },
    // Loaded here and not above: `--help` reads no runs.
    stores: () => (stores ??= import('../store/open-stores.ts').then(({ openStores }) => openStores(env))),
    onReaderGone(callback) {
      lastWork.add(callback);
      return { dispose: () => void lastWork.delete(callback) };
    },
    readerGone: () =>
      lastWork.size === 0
        ? null
        : Promise.race([Promise.allSettled([...lastWork].map((callback) => callback())), sleep(LAST_WORK_MS)]).then(
            () => undefined,
          ),
    onInterrupt(callback) {
      if (interrupts.size === 0) process.on('SIGINT', onSignal);
      interrupts.add(callback);
      return {
        dispose() {
          interrupts.delete(callback);
          if (interrupts.size === 0) process.off('SIGINT', onSignal);
        },
      };
    },
    now: () => new Date(),
    warn: async (line) => await stderr.write(`${stderr.style.yellow('warning:')} ${line}\n`),
    advise: (text) =>
      withTypedCommands(text, (ownCommand ??= writeOwnCommand(env.isStartedByNpm, host.cwd())), commands),
    // The caller that opened the stores has already reported the failure to open them.
    close: async () =>
      await stores?.then(
        (opened) => opened.close(),
        () => undefined,
      ),
  };
}

/** @throws AppError if standard input is a folder, which Node reads as empty */
function refuseFolder(stdin: NodeJS.ReadStream & { readonly fd?: number }): void {
  if (stdin.fd === undefined || !isFolderDescriptor(stdin.fd)) return;
  throw createUsageError('standard input is a folder', 'Use a file or a pipe: `< FILE`, not `< FOLDER`.');
}

async function* openInput(stdin: NodeJS.ReadStream, signal: AbortSignal): AsyncIterable<Uint8Array> {
  refuseFolder(stdin);
  if (signal.aborted) return;
  // Only this ends a read that waits for the user to type.
  const stop = (): unknown => stdin.destroy();
  signal.addEventListener('abort', stop, { once: true });
  try {
    for await (const chunk of stdin) yield typeof chunk === 'string' ? Buffer.from(chunk) : (chunk as Uint8Array);
  } catch (error) {
    if (signal.aborted) return;
    throw createUsageError(`standard input cannot be read: ${(error as Error).message}`, 'Use a file or a pipe.');
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

function createSink(stream: NodeJS.WriteStream, env: Environment): Sink {
  const isTerminal = stream.isTTY === true;
  return {
    isTerminal,
    canRedraw: isTerminal && !env.isDumbTerminal,
    // Both are 0 on a terminal whose size was never set.
    width: () => (isTerminal && stream.columns > 0 ? stream.columns : Number.POSITIVE_INFINITY),
    height: () => (isTerminal && stream.rows > 0 ? stream.rows : Number.POSITIVE_INFINITY),
    write: (data) =>
      new Promise((resolve, reject) => {
        stream.write(data, (error) => {
          if (error) reject(codeOf(error) === 'EPIPE' ? new ReaderGone() : error);
          else resolve();
        });
      }),
    style: createStyle(isTerminal && !env.noColor),
  };
}

function codeOf(error: Error): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
