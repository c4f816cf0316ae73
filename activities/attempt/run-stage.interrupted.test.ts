/** The outcome and the kept outputs of an attempt that Voidbox ends. The program exits with 0 on SIGTERM. */
import { Buffer } from 'node:buffer';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import { LEAST_SANDBOX } from '../../test/rig/runs/mock-worker.ts';
import { begin, KEY, request, RUN, useStageAttempts } from '../../test/rig/runs/stage-attempts.ts';
import type { ActivityDeps } from '../deps.ts';
import type { ExecState, Sandbox } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';

/** Ends the program when a test sets it. */
let finish: AbortController;

beforeEach(() => {
  finish = new AbortController();
});

const rig = useStageAttempts({
  /** Writes a row and a part of its named output, then exits with 0 on SIGTERM or when the test sets it. */
  export: async ({ files, terminated, write }) => {
    files.makeDir('/workspace/dist');
    files.write('/workspace/dist/app', Buffer.from('part 1\n'));
    await write('stdout', 'row 1\n');
    await new Promise<void>((resolve) => {
      terminated.addEventListener('abort', () => resolve(), { once: true });
      finish.signal.addEventListener('abort', () => resolve(), { once: true });
    });
    await write('stdout', 'row 2\n');
    return 0;
  },
});

const OUTPUTS = [{ name: 'dist', guestPath: '/workspace/dist' }];

async function untilStored(text: string): Promise<void> {
  while (!(await rig.storedOutput()).includes(text)) await sleep(10);
}

async function noticesOf(): Promise<string[]> {
  const notices: string[] = [];
  for await (const { body } of rig.stores.reader.read(RUN, 0, { output: false }))
    if (body.type === 'notice') notices.push(body.message);
  return notices;
}

describe('a command that exits with 0 after the SIGTERM of a cancel', () => {
  const what = (): StageRequest => request('export', { outputs: OUTPUTS });
  const interrupted = {
    outcome: 'cancelled',
    failure: { code: 'stage/cancelled' },
    output: null,
    outputs: {},
    partial: { dist: { mediaType: 'application/x-tar' } },
    command: { exitCode: 0 },
  };

  test('is cancelled, leaves no output, and its named outputs are partial', async () => {
    const attempt = begin(rig.processDeps(), what());
    await untilStored('row 1');
    attempt.cancel({ cancelRequested: true });
    expect(await attempt.result).toMatchObject(interrupted);
    expect(await rig.storedOutput()).toBe('row 1\nrow 2\n');
  });

  test('is cancelled also by a worker that takes over and does not know of the cancel', async () => {
    const never = new Promise<never>(() => undefined);
    const backend = {
      ...rig.backend,
      // The first worker sends the signal, and dies before it reads the end of the command.
      launch: async (...args: Parameters<typeof rig.backend.launch>) => {
        const sandbox = await rig.backend.launch(...args);
        const exec: typeof sandbox.exec = async (...asked) => ({
          ...(await sandbox.exec(...asked)),
          wait: () => never,
        });
        return { ...sandbox, exec };
      },
    };
    const first = begin(rig.processDeps({ backendFor: () => backend }), what());
    await untilStored('row 1');
    first.cancel({ cancelRequested: true });
    await untilStored('row 2');
    expect(await begin(rig.processDeps(), what()).result).toMatchObject(interrupted);
  });

  test('keeps its result if it ended before the signal', async () => {
    let letEnd!: () => void;
    const mayEnd = new Promise<void>((resolve) => (letEnd = resolve));
    const causes: string[] = [];
    const backend = {
      ...rig.backend,
      // The VM knows the end of the command before the cancel, the worker only after it.
      launch: async (...args: Parameters<typeof rig.backend.launch>) => {
        const sandbox = await rig.backend.launch(...args);
        const exec: typeof sandbox.exec = async (...asked) => {
          const started = await sandbox.exec(...asked);
          return {
            ...started,
            wait: (signal) => mayEnd.then(() => started.wait(signal)),
            end: async (cause, graceMs) => {
              await started.end(cause, graceMs);
              causes.push(cause.kind);
            },
          };
        };
        return { ...sandbox, exec };
      },
    };
    const attempt = begin(rig.processDeps({ backendFor: () => backend }), what());
    await untilStored('row 1');
    finish.abort();
    await untilStored('row 2');
    attempt.cancel({ cancelRequested: true });
    await expect.poll(() => causes).toEqual(['cancel']);
    letEnd();
    expect(await attempt.result).toMatchObject({ outcome: 'succeeded', failure: null, outputs: { dist: {} } });
  });

  test('and whose partial outputs cannot be copied is cancelled with a notice', async () => {
    const backend = {
      ...rig.backend,
      launch: async (...args: Parameters<typeof rig.backend.launch>) => {
        const sandbox = await rig.backend.launch(...args);
        const getTar = (): Promise<never> =>
          Promise.reject(new CodedError('stage/bad-output', 'a device: app/sda is refused'));
        return { ...sandbox, getTar };
      },
    };
    const attempt = begin(rig.processDeps({ backendFor: () => backend }), what());
    await untilStored('row 1');
    attempt.cancel({ cancelRequested: true });
    const result = await attempt.result;
    expect(result).toMatchObject({ outcome: 'cancelled', outputs: {} });
    expect(result).not.toHaveProperty('partial');
    expect(await noticesOf()).toEqual([
      'the partial output dist of stage talk is not kept: a device: app/sda is refused',
    ]);
  });
});

describe('a command in a VM of several steps, cancelled', () => {
  const shared = (): StageRequest => ({
    ...request('export', { outputs: OUTPUTS }),
    lease: { vmKey: formatVmKey(KEY), queue: 'voidbox-host:h', host: 'h' },
  });
  /** The execs in the order of their starts. */
  const commandsOfVm = async (): Promise<readonly ExecState[]> =>
    (await rig.backend.launch(KEY, LEAST_SANDBOX, AbortSignal.timeout(5_000))).execs();
  /** Lets a worker change how the VMs start commands. */
  const withExec = (exec: (real: Sandbox) => Sandbox['exec']): ActivityDeps =>
    rig.processDeps({
      backendFor: () => ({
        ...rig.backend,
        launch: async (...args) => {
          const sandbox = await rig.backend.launch(...args);
          return { ...sandbox, exec: exec(sandbox) };
        },
      }),
    });

  test('while its worker waits for the answer to its start, ends before the stage does', async () => {
    let asked!: () => void;
    const wasAsked = new Promise<void>((resolve) => (asked = resolve));
    // The VM starts the command, and its answer never arrives.
    const deps = withExec((sandbox) => async (what, signal) => {
      await sandbox.exec(what, signal);
      asked();
      return await new Promise((_, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }),
      );
    });
    const attempt = begin(deps, shared());
    await wasAsked;
    attempt.cancel({ cancelRequested: true });
    expect(await attempt.result).toMatchObject({ outcome: 'cancelled', outputs: {} });
    expect(rig.backend.alive(), 'other steps use the VM').toContain(formatVmKey(KEY));
    expect(await commandsOfVm()).toEqual([{ key: 'talk/0/1', isRunning: false }]);
  });

  test('before a second worker has attached to it, ends before the stage does', async () => {
    const first = begin(rig.processDeps(), shared());
    await untilStored('row 1');
    let launches = 0;
    let attaching!: () => void;
    const isAttaching = new Promise<void>((resolve) => (attaching = resolve));
    const deps = rig.processDeps({
      backendFor: () => ({
        ...rig.backend,
        // The launch for the first worker lasts until the cancel.
        launch: (key, spec, signal) => {
          launches += 1;
          if (launches > 1) return rig.backend.launch(key, spec, signal);
          attaching();
          return new Promise((_, reject) =>
            signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }),
          );
        },
      }),
    });
    const second = begin(deps, shared());
    await isAttaching;
    second.cancel({ cancelRequested: true });
    expect(await second.result).toMatchObject({ outcome: 'cancelled', outputs: {} });
    expect(await commandsOfVm()).toEqual([{ key: 'talk/0/1', isRunning: false }]);
    await first.result.catch(() => undefined);
  });
});

test('a command that exits with 0 after its deadline fails with a timeout, and its named outputs are partial', async () => {
  const result = await begin(rig.processDeps(), request('export', { outputs: OUTPUTS, timeoutMs: 300 })).result;
  expect(result).toMatchObject({
    outcome: 'failed',
    failure: { code: 'stage/timeout' },
    output: null,
    outputs: {},
    partial: { dist: { mediaType: 'application/x-tar' } },
  });
  expect(rig.backend.alive()).not.toContain(formatVmKey(KEY));
});
