/** One command of a mock VM. It runs once, even if several callers attach to it. */
import { Buffer } from 'node:buffer';
import type { ExecExit, ExecRequest, StopCause } from '../../activities/ports/sandbox.ts';
import type { MockFiles } from './files.ts';
import type { MockProgram } from './programs.ts';
import { MockSpool, type MockStream } from './spool.ts';
import { quote } from '../../domain/units/quote.ts';

/** The limit of input that a program has not read yet; at the limit, the sender waits. */
const STDIN_HELD_BYTES = 256 * 1024;

/** Node would fire a longer timer at once; no mock VM lives this long. */
const MOST_TIMER_MS = 2 ** 31 - 1;

const SIGNALS = { SIGTERM: 15, SIGKILL: 9, SIGINT: 2 } as const;

/** The same grace as the keeper's. */
const DEADLINE_GRACE_MS = 2_000;

/** The reason for which a command ends early. */
type Interruption = { readonly reason: 'timeout' | 'output-limit' } | { readonly cause: StopCause };

export class MockExec {
  readonly spool: MockSpool;
  readonly ended: Promise<ExecExit>;
  readonly stdin: MockStdin;
  isRunning = true;
  isAcknowledged = false;
  readonly #killed = new AbortController();
  readonly #terminated = new AbortController();
  #hasTrap = false;
  #killedBy: 'SIGTERM' | 'SIGKILL' | 'SIGINT' | null = null;
  /** The first interruption; later ones are ignored. */
  #interruption: Interruption | null = null;

  constructor(request: ExecRequest, program: MockProgram | null, known: readonly string[], files: MockFiles) {
    this.spool = new MockSpool(request.maxOutputBytes);
    this.stdin = new MockStdin(request.stdin === null ? 0 : request.stdin.sizeBytes);
    this.ended = this.#run(request, program, known, files);
  }

  /** Kills the command; a command that has ended keeps its exit. */
  kill(signal: 'SIGTERM' | 'SIGKILL' | 'SIGINT'): void {
    if (!this.isRunning) return;
    this.#killedBy ??= signal;
    this.#killed.abort(new Error('killed'));
    this.stdin.close();
  }

  /** Sends SIGTERM, and SIGKILL after `graceMs` if the program has a trap. A command that has ended keeps its exit. */
  interrupt(by: Interruption, graceMs: number): void {
    if (!this.isRunning) return;
    this.#interruption ??= by;
    if (!this.#hasTrap) return this.kill('SIGTERM');
    this.#terminated.abort(new Error('terminated'));
    setTimeout(() => this.kill('SIGKILL'), graceMs).unref();
  }

  async #run(
    request: ExecRequest,
    program: MockProgram | null,
    known: readonly string[],
    files: MockFiles,
  ): Promise<ExecExit> {
    const startedAtMs = Date.now();
    const finish = (reason: ExecExit['reason'], exitCode: number, message: string): ExecExit => {
      this.isRunning = false;
      this.spool.complete();
      this.stdin.close();
      const by = this.#interruption;
      return {
        reason: by !== null && 'reason' in by ? by.reason : reason,
        exitCode,
        signal: reason === 'killed' ? exitCode - 128 : null,
        cause: by !== null && 'cause' in by ? by.cause : null,
        message,
        startedAtMs,
        endedAtMs: Date.now(),
        stdoutBytes: this.spool.sizeBytes('stdout'),
        stderrBytes: this.spool.sizeBytes('stderr'),
        droppedBytes: this.spool.droppedBytes(),
      };
    };
    if (program === null) {
      return finish(
        'cannot-start',
        127,
        `${quote(request.program)} is not simulated: mode mock has only ${known.join(', ')}; for a real VM, run without \`--mode mock\`, and without \`mode: mock\` in the spec`,
      );
    }
    const node = files.find(request.cwd);
    if (node?.kind !== 'dir') return finish('cannot-start', 126, `${request.cwd}: no such folder in the guest`);
    const timer =
      request.timeoutMs > MOST_TIMER_MS
        ? undefined
        : setTimeout(() => this.interrupt({ reason: 'timeout' }, DEADLINE_GRACE_MS), request.timeoutMs);
    const endSignal = (): AbortSignal => {
      this.#hasTrap = true;
      return this.#terminated.signal;
    };
    const killed = new Promise<number>((resolve) =>
      this.#killed.signal.addEventListener('abort', () => resolve(137), { once: true }),
    );
    try {
      const exitCode = await Promise.race([
        program({
          args: request.args,
          env: request.env,
          cwd: request.cwd,
          files,
          killed: this.#killed.signal,
          get terminated() {
            return endSignal();
          },
          stdin: this.stdin.bytes(),
          write: (stream, bytes) => this.#write(stream, bytes),
        }),
        killed,
      ]);
      if (this.#killedBy !== null) return finish('killed', 128 + SIGNALS[this.#killedBy], '');
      return finish('exited', exitCode, '');
    } catch (error) {
      if (this.#killedBy !== null) return finish('killed', 128 + SIGNALS[this.#killedBy], '');
      this.spool.append('stderr', Buffer.from(`${request.program} (mock): ${(error as Error).message}\n`));
      return finish('exited', 1, '');
    } finally {
      clearTimeout(timer);
    }
  }

  /** Yields between pieces, so that another caller can kill a program that floods its output. */
  async #write(stream: MockStream, bytes: Uint8Array | string): Promise<void> {
    if (this.#killed.signal.aborted) throw new Error('killed');
    const isWithinLimit = this.spool.append(stream, typeof bytes === 'string' ? Buffer.from(bytes) : bytes);
    if (!isWithinLimit) {
      this.#interruption ??= { reason: 'output-limit' };
      this.kill('SIGKILL');
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Standard input with one sender, the newest; the reader may be slow. */
export class MockStdin {
  /** Null until a source of unknown size ends. */
  #sizeBytes: number | null;
  readonly #held: Buffer[] = [];
  #heldBytes = 0;
  #receivedBytes = 0;
  #isClosed = false;
  #sender = 0;
  #changed: (() => void)[] = [];

  constructor(sizeBytes: number | null) {
    this.#sizeBytes = sizeBytes;
  }

  /**
   * Continues where the last sender stopped, until all input has arrived, the command has ended, or a newer sender
   * comes.
   */
  async feed(open: (offset: number) => AsyncIterable<Uint8Array>): Promise<void> {
    const mine = ++this.#sender;
    this.#wake();
    const isMine = (): boolean => mine === this.#sender && !this.#isClosed;
    if (this.#isWhole()) return;
    for await (const chunk of open(this.#receivedBytes)) {
      while (isMine() && this.#heldBytes >= STDIN_HELD_BYTES) await this.#change();
      if (!isMine()) return;
      this.#held.push(Buffer.from(chunk));
      this.#heldBytes += chunk.length;
      this.#receivedBytes += chunk.length;
      this.#wake();
    }
    if (!isMine()) return;
    this.#sizeBytes ??= this.#receivedBytes;
    this.#wake();
    if (this.#receivedBytes !== this.#sizeBytes)
      throw new Error(`standard input ended at ${this.#receivedBytes} of ${this.#sizeBytes} bytes`);
  }

  async *bytes(): AsyncGenerator<Uint8Array, void, void> {
    for (;;) {
      const chunk = this.#held.shift();
      if (chunk !== undefined) {
        this.#heldBytes -= chunk.length;
        this.#wake();
        yield chunk;
      } else if (this.#isClosed || this.#isWhole()) {
        return;
      } else {
        await this.#change();
      }
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#wake();
  }

  #isWhole(): boolean {
    return this.#sizeBytes !== null && this.#receivedBytes >= this.#sizeBytes;
  }

  #wake(): void {
    const waiting = this.#changed;
    this.#changed = [];
    for (const wake of waiting) wake();
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#changed.push(resolve));
  }
}
