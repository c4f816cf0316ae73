/** The moments at which an attempt can die, and the result of the next attempt. VMs are mocks, stores are files. */
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { REMEMBERED_MS } from '../../sandbox/mock/ended-vms.ts';
import { LEAST_SANDBOX } from '../../test/rig/runs/mock-worker.ts';
import { begin, commandWork, KEY, request, RUN, useStageAttempts } from '../../test/rig/runs/stage-attempts.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { StageRequest } from '../calls/requests.ts';

const TWENTY_LINES = Array.from({ length: 20 }, (_, index) => `line ${index + 1}\n`).join('');

let started: number;
let nowMs: number;
/** The inputs that commands found. */
let inputs: string[];
/** The number of lines that commands may print so far. */
let mayPrint: number;

beforeEach(() => {
  started = 0;
  mayPrint = 20;
  nowMs = 0;
  inputs = [];
});

const rig = useStageAttempts(
  {
    /** Prints twenty lines, each as soon as the test allows it. */
    lines: async ({ killed, write }) => {
      started += 1;
      for (let line = 1; line <= 20; line += 1) {
        while (line > mayPrint) await sleep(5, undefined, { signal: killed });
        await write('stdout', `line ${line}\n`);
      }
      return 0;
    },
    /** Records its input, then runs as long as its VM lives. */
    'read-input': async ({ files, killed, write }) => {
      const node = files.find('/workspace/input.json');
      const text = node?.kind === 'file' ? node.body.toString() : 'no input';
      inputs.push(text);
      await write('stdout', text);
      await sleep(60_000, undefined, { signal: killed });
      return 0;
    },
  },
  () => nowMs,
);

async function reattachments(): Promise<(string | undefined)[]> {
  const reasons: (string | undefined)[] = [];
  for await (const { body } of rig.stores.reader.read(RUN, 0, { output: false }))
    if (body.type === 'stage-reattached') reasons.push(body.reason);
  return reasons;
}

async function untilStored(text: string): Promise<void> {
  while (!(await rig.storedOutput()).includes(text)) await sleep(10);
}

describe('an attempt that loses its server', () => {
  test.each(['notFound', 'timedOut', 'workerShutdown', 'reset'] as const)(
    'detaches on %s: the command continues, and the next attempt returns its whole output once',
    async (reason) => {
      mayPrint = 3;
      const first = begin(rig.processDeps(), request('lines'));
      await untilStored('line 3\n');
      first.cancel({ [reason]: true });
      await expect(first.result).rejects.toMatchObject({ type: 'attempt/detached', nonRetryable: false });
      mayPrint = 20;
      expect(rig.backend.alive()).toHaveLength(1);
      expect(await rig.typesOf()).not.toContain('stage-finished');

      const result = await begin(rig.processDeps(), request('lines')).result;
      expect(result).toMatchObject({ outcome: 'succeeded', command: { stdoutBytes: TWENTY_LINES.length } });
      expect(started).toBe(1);
      expect(await rig.storedOutput()).toBe(TWENTY_LINES);
      expect(await rig.typesOf()).toEqual([
        'vm-starting',
        'vm-ready',
        'stage-started',
        'stage-reattached',
        'stage-finished',
        'vm-stopped',
      ]);
      expect(rig.backend.alive()).toEqual([]);
    },
  );

  test('yields to a newer attempt of the same process', async () => {
    const deps = rig.processDeps();
    mayPrint = 3;
    const first = begin(deps, request('lines'));
    await untilStored('line 3\n');
    const second = begin(deps, request('lines'));
    await expect(first.result).rejects.toMatchObject({ type: 'attempt/detached' });
    mayPrint = 20;
    expect((await second.result).outcome).toBe('succeeded');
    expect(started).toBe(1);
    expect(await rig.storedOutput()).toBe(TWENTY_LINES);
    expect(await reattachments()).toEqual(['the previous attempt let go: a newer attempt in this process took over']);
  });

  test('does not yield to an older attempt that comes late, whose failure does not fail the stage', async () => {
    const deps = rig.processDeps();
    mayPrint = 3;
    const second = begin(deps, request('lines'), { currentAttemptScheduledTimestampMs: 2 });
    await untilStored('line 3\n');
    const late = begin(deps, request('lines'), { currentAttemptScheduledTimestampMs: 1 });
    await expect(late.result).rejects.toMatchObject({
      type: 'attempt/detached',
      message: expect.stringContaining('a newer attempt in this process drives it') as string,
    });
    mayPrint = 20;
    expect((await second.result).outcome).toBe('succeeded');
    expect(await rig.storedOutput()).toBe(TWENTY_LINES);
    expect(await reattachments()).toEqual([]);
  });

  test('each reattachment records how the previous attempt ended', async () => {
    let broken = false;
    const deps = rig.processDeps({
      events: {
        ...rig.events,
        append: (runId, added, writer) => {
          if (broken && added.some(({ body }) => body.type === 'output'))
            throw new CodedError('store/io', 'cannot append to events.jsonl: EIO');
          return rig.events.append(runId, added, writer);
        },
      },
    });
    mayPrint = 3;
    const first = begin(deps, request('lines'));
    await untilStored('line 3\n');
    broken = true;
    mayPrint = 6;
    await expect(first.result).rejects.toMatchObject({ type: 'store/io', nonRetryable: false });
    broken = false;
    const second = begin(deps, request('lines'));
    await untilStored('line 6\n');
    second.cancel({ timedOut: true });
    await expect(second.result).rejects.toMatchObject({ type: 'attempt/detached' });
    mayPrint = 9;
    const third = begin(deps, request('lines'));
    await untilStored('line 9\n');
    third.cancel({ workerShutdown: true });
    await expect(third.result).rejects.toMatchObject({ type: 'attempt/detached' });
    mayPrint = 20;
    // The memory of the other process is gone, so this process does not know the reason.
    expect((await begin(rig.processDeps(), request('lines')).result).outcome).toBe('succeeded');
    expect(await rig.storedOutput()).toBe(TWENTY_LINES);
    expect(await reattachments()).toEqual([
      'store/io: cannot append to events.jsonl: EIO',
      'the previous attempt let go: no heartbeat reached the server in time',
      'the previous worker ended, or lost contact with this host',
    ]);
  });

  test('writes nothing after another process has taken over', async () => {
    mayPrint = 3;
    const first = begin(rig.processDeps(), request('lines'));
    await untilStored('line 3\n');
    const second = begin(rig.processDeps(), request('lines'));
    await expect.poll(() => rig.typesOf()).toContain('stage-reattached');
    mayPrint = 20;
    await expect(first.result).rejects.toMatchObject({ type: 'fence/stale', nonRetryable: false });
    expect((await second.result).outcome).toBe('succeeded');
    expect(started).toBe(1);
    expect(await rig.storedOutput()).toBe(TWENTY_LINES);
  });
});

describe('an attempt that dies', () => {
  const dies = new CodedError('store/io', 'the process is gone');

  test('between the end of the command and the result: the next attempt writes the result, and the command does not run again', async () => {
    const failing: EventLog = {
      ...rig.events,
      append: (run, added, writer) =>
        added.some(({ body }) => body.type === 'stage-finished')
          ? Promise.reject(dies)
          : rig.events.append(run, added, writer),
    };
    await expect(begin(rig.processDeps({ events: failing }), request('lines')).result).rejects.toMatchObject({
      type: 'store/io',
      nonRetryable: false,
    });
    expect((await begin(rig.processDeps(), request('lines')).result).outcome).toBe('succeeded');
    expect(started).toBe(1);
    expect(await rig.storedOutput()).toBe(TWENTY_LINES);
  });

  test('between the result and its completion: the next attempt returns the result and ends the VM', async () => {
    const failing: EventLog = {
      ...rig.events,
      append: async (run, added, writer) => {
        const count = await rig.events.append(run, added, writer);
        if (added.some(({ body }) => body.type === 'stage-finished')) throw dies;
        return count;
      },
    };
    await expect(begin(rig.processDeps({ events: failing }), request('lines')).result).rejects.toMatchObject({
      type: 'store/io',
    });
    expect(rig.backend.alive()).toHaveLength(1);
    const result = await begin(rig.processDeps(), request('lines')).result;
    expect(result).toMatchObject({ outcome: 'succeeded', execKey: 'talk/0/1' });
    expect(started).toBe(1);
    expect(rig.backend.alive()).toEqual([]);
    expect((await rig.typesOf()).filter((type) => type === 'stage-finished')).toHaveLength(1);
  });

  test('returns its durable result if its VM dies afterwards', async () => {
    const losing: EventLog = {
      ...rig.events,
      append: async (run, added, writer) => {
        const count = await rig.events.append(run, added, writer);
        if (added.some(({ body }) => body.type === 'stage-finished')) rig.backend.lose(KEY);
        return count;
      },
    };
    expect((await begin(rig.processDeps({ events: losing }), request('lines')).result).outcome).toBe('succeeded');
    expect(await rig.typesOf()).not.toContain('vm-lost');
    expect(started).toBe(1);
  });

  test('with its VM: Temporal does not retry it, the run machine does', async () => {
    mayPrint = 3;
    const attempt = begin(rig.processDeps(), request('lines'));
    await untilStored('line 3\n');
    rig.backend.lose(KEY);
    await expect(attempt.result).rejects.toMatchObject({ type: 'vm/lost', nonRetryable: true });
    expect(await rig.typesOf()).toContain('vm-lost');
  });
});

describe('a cancel', () => {
  test('ends the command and its VM within three seconds, and has a result', async () => {
    const attempt = begin(rig.processDeps(), request('lines', { work: commandWork('sleep', { args: ['60'] }) }));
    while (!(await rig.typesOf()).includes('stage-started')) await sleep(10);
    const asked = Date.now();
    attempt.cancel({ cancelRequested: true });
    expect(await attempt.result).toMatchObject({ outcome: 'cancelled', failure: { code: 'stage/cancelled' } });
    expect(Date.now() - asked).toBeLessThan(3_000);
    expect(rig.backend.alive()).toEqual([]);
  });

  test('that comes after a durable result changes nothing', async () => {
    const done = await begin(rig.processDeps(), request('lines')).result;
    const again = begin(rig.processDeps(), request('lines'));
    again.cancel({ cancelRequested: true });
    expect(await again.result).toEqual(done);
  });
});

describe('a VM whose key had a VM that the host has forgotten gets the input too', () => {
  /** After a reset to a point before the loss of its VM, the same command runs under the same keys. */
  async function loseAndForget(what: StageRequest): Promise<void> {
    const lost = begin(rig.processDeps(), what);
    await untilStored('of the run');
    rig.backend.lose(KEY);
    await expect(lost.result).rejects.toMatchObject({ type: 'vm/lost' });
    nowMs += REMEMBERED_MS + 1;
    await rig.backend.release({ ...KEY, scope: 'another' });
  }

  const what = (): StageRequest => ({
    ...request('read-input', { input: { kind: 'run-input' } }),
    input: { kind: 'inline', text: 'of the run' },
  });

  async function inputOfNext(): Promise<string | undefined> {
    const again = begin(rig.processDeps(), what());
    await expect.poll(() => inputs.length).toBe(2);
    rig.backend.lose(KEY);
    await expect(again.result).rejects.toMatchObject({ type: 'vm/lost' });
    return inputs.at(-1);
  }

  test('by the worker that launches it', async () => {
    await loseAndForget(what());
    expect(await inputOfNext()).toBe('of the run');
  });

  test('by the successor of a worker that launched it and died', async () => {
    await loseAndForget(what());
    await rig.backend.launch(KEY, LEAST_SANDBOX, new AbortController().signal);
    expect(await inputOfNext()).toBe('of the run');
  });
});
