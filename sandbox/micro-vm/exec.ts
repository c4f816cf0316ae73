/** One command of a VM: its output from any offset, its input, its end. Broken connections are resumed. */
import type {
  Exec,
  ExecExit,
  ExecRequest,
  OutputOffsets,
  OutputPiece,
  StopCause,
} from '../../activities/ports/sandbox.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { ConnectionError, type MicroVm } from '../../native/index.ts';
import { readStopCause, writeStopCause } from './stop-cause.ts';

/** The number of consecutive interruptions without a byte between them that are allowed for a living keeper. */
const STALLS_ALLOWED = 5;
const RESUME_PAUSE_MS = 200;
/** A command that no longer reads ends soon after its input failed; then its outcome counts, not the input's error. */
const STDIN_GRACE_MS = 5_000;

export function createMicroVmExec(vm: MicroVm, key: string, stdin: ExecRequest['stdin'], attached: boolean): Exec {
  let ended: ExecExit | null = null;
  const input = stdin === null ? null : new InputPump(vm, key, stdin);

  const wait = async (signal: AbortSignal): Promise<ExecExit> => {
    if (ended !== null) return ended;
    const exit = vm.execWait(key, signal);
    const settled = input === null ? exit : Promise.race([exit, input.failure]);
    exit.catch(() => undefined);
    const end = await settled;
    ended = { ...end, cause: readStopCause(end.cause) };
    input?.stop();
    return ended;
  };

  const end = async (cause: StopCause, graceMs: number): Promise<void> => {
    if (ended === null) await vm.execEnd(key, writeStopCause(cause), graceMs);
  };

  return {
    attached,
    wait,

    async *output(stream, offset, signal) {
      let at = offset;
      for (let stalls = 0; stalls <= STALLS_ALLOWED; stalls += 1) {
        const before = at;
        try {
          for await (const chunk of vm.execOutput(key, stream, at, signal)) {
            at += chunk.length;
            yield chunk;
          }
          const exit = await wait(signal);
          if (at >= (stream === 'stdout' ? exit.stdoutBytes : exit.stderrBytes)) return;
        } catch (error) {
          signal.throwIfAborted();
          if (!(error instanceof ConnectionError)) throw error;
        }
        if (at > before) stalls = 0;
        await new Promise((resolve) => setTimeout(resolve, RESUME_PAUSE_MS));
        signal.throwIfAborted();
      }
      throw new CodedError('vm/lost', `${stream} of ${key} broke off at byte ${at} ${STALLS_ALLOWED} times in a row`);
    },

    outputs: (from, signal) => followOutputs(vm, key, from, signal),

    signal: (name) => vm.execSignal(key, name),
    end,
    whileFrozen: (limitMs, copy, within) => vm.whileFrozen(key, limitMs, copy, within),
    acknowledge: () => vm.execAck(key),
  };
}

/** Yields both streams to their ends, over as many connections as needed. */
async function* followOutputs(
  vm: MicroVm,
  key: string,
  from: OutputOffsets,
  signal: AbortSignal,
): AsyncGenerator<OutputPiece, void, void> {
  const at = { ...from };
  for (let stalls = 0; stalls <= STALLS_ALLOWED; stalls += 1) {
    const before = at.stdout + at.stderr;
    try {
      const pieces = vm.execOutputs(key, at, signal);
      for (;;) {
        const next = await pieces.next();
        if (next.done === true && next.value) return;
        if (next.done === true) break;
        at[next.value.stream] += next.value.bytes.length;
        yield next.value;
      }
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof ConnectionError)) throw error;
    }
    if (at.stdout + at.stderr > before) stalls = 0;
    await new Promise((resolve) => setTimeout(resolve, RESUME_PAUSE_MS));
    signal.throwIfAborted();
  }
  throw new CodedError('vm/lost', `the outputs of ${key} broke off ${STALLS_ALLOWED} times in a row`);
}

/** Sends standard input in the background. */
class InputPump {
  /** Rejects when input that the command may still wait for cannot be delivered. Never resolves. */
  readonly failure: Promise<never>;
  readonly #stopped = new AbortController();

  constructor(vm: MicroVm, key: string, stdin: NonNullable<ExecRequest['stdin']>) {
    this.failure = new Promise<never>((_, reject) => {
      this.#run(vm, key, stdin).catch((error: unknown) => {
        if (this.#stopped.signal.aborted) return;
        const timer = setTimeout(() => reject(error), STDIN_GRACE_MS);
        this.#stopped.signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
      });
    });
    this.failure.catch(() => undefined);
  }

  stop(): void {
    this.#stopped.abort(new Error('the command has ended'));
  }

  async #run(vm: MicroVm, key: string, stdin: NonNullable<ExecRequest['stdin']>): Promise<void> {
    const { sizeBytes } = stdin;
    if (sizeBytes === null) return await vm.execOpenStdin(key, stdin.open(0), this.#stopped.signal);
    for (let tries = 1; ; tries += 1) {
      try {
        return await vm.execStdin(key, sizeBytes, (offset) => stdin.open(offset), this.#stopped.signal);
      } catch (error) {
        if (!(error instanceof ConnectionError) || tries > STALLS_ALLOWED || this.#stopped.signal.aborted) throw error;
        await new Promise((resolve) => setTimeout(resolve, RESUME_PAUSE_MS));
      }
    }
  }
}
