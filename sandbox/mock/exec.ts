/** One command of a mock VM: runs once, whoever is attached. */
import { Buffer } from 'node:buffer';
import type { ExecExit, ExecRequest } from '../../activities/ports/sandbox.ts';
import type { MockFiles } from './files.ts';
import type { MockProgram } from './programs.ts';
import { MockSpool, type MockStream } from './spool.ts';

/** Input that a program has not read yet; beyond it the sender waits. */
const STDIN_HELD_BYTES = 256 * 1024;

/** A longer timer of Node's would end at once; no mock VM lives as long. */
const MOST_TIMER_MS = 2 ** 31 - 1;

type KillReason = 'timeout' | 'output-limit' | 'killed';

export class MockExec {
  readonly spool: MockSpool;
  readonly ended: Promise<ExecExit>;
  readonly stdin: MockStdin;
  isRunning = true;
  isAcknowledged = false;
  readonly #killed = new AbortController();
  #killReason: { readonly reason: KillReason; readonly exitCode: number } | null = null;

  constructor(request: ExecRequest, program: MockProgram | null, known: readonly string[], files: MockFiles) {
    this.spool = new MockSpool(request.maxOutputBytes);
    this.stdin = new MockStdin(request.stdin === null ? 0 : request.stdin.sizeBytes);
    this.ended = this.#run(request, program, known, files);
  }

  /** What has ended already stays as it is. */
  kill(reason: KillReason, exitCode: number): void {
    if (!this.isRunning) return;
    this.#killReason ??= { reason, exitCode };
    this.#killed.abort(new Error(reason));
    this.stdin.close();
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
      return {
        reason,
        exitCode,
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
        `${JSON.stringify(request.program)} is not simulated: mode mock has only ${known.join(', ')}; for a real VM, run without \`--mode mock\`, and without \`mode: mock\` in the spec`,
      );
    }
    const node = files.find(request.cwd);
    if (node?.kind !== 'dir') return finish('cannot-start', 126, `${request.cwd}: no such folder in the guest`);
    const timer =
      request.timeoutMs > MOST_TIMER_MS ? undefined : setTimeout(() => this.kill('timeout', 137), request.timeoutMs);
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
          stdin: this.stdin.bytes(),
          write: (stream, bytes) => this.#write(stream, bytes),
        }),
        killed,
      ]);
      if (this.#killReason !== null) return finish(this.#killReason.reason, this.#killReason.exitCode, '');
      return finish('exited', exitCode, '');
    } catch (error) {
      if (this.#killReason !== null) return finish(this.#killReason.reason, this.#killReason.exitCode, '');
      this.spool.append('stderr', Buffer.from(`${request.program} (mock): ${(error as Error).message}\n`));
      return finish('exited', 1, '');
    } finally {
      clearTimeout(timer);
    }
  }

  /** Lets others run between pieces, so that a flood can be killed. */
  async #write(stream: MockStream, bytes: Uint8Array | string): Promise<void> {
    if (this.#killed.signal.aborted) throw new Error('killed');
    const isWithinLimit = this.spool.append(stream, typeof bytes === 'string' ? Buffer.from(bytes) : bytes);
    if (!isWithinLimit) this.kill('output-limit', 137);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Standard input: one sender at a time, the newest; a reader that may be slow. */
export class MockStdin {
  /** Null until the end of a source that did not say it. */
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

  /** Sends from where the last sender stood until all is there, the command has ended or a newer sender came. */
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
