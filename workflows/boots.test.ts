import { ActivityFailure } from '@temporalio/common';
import { describe, expect, test } from 'vitest';
import type { MachineEvent } from '../domain/pipeline/event.ts';
import type { StageResult } from '../domain/run/stage-result.ts';
import { countUtf8Bytes } from '../domain/units/utf8.ts';
import { Boots } from './boots.ts';

const RESULT: StageResult = {
  stage: 'build',
  instance: [],
  attempt: 1,
  execKey: 'build/0/1',
  outcome: 'succeeded',
  failure: null,
  durationMs: 5,
  output: null,
  outputs: {},
  vm: { backend: 'qemu', vmm: 'qemu', isolation: 'microvm', accelerator: 'kvm' },
  bootMs: 2_340,
  usage: {},
  command: { exitCode: 0, stdoutBytes: 0, stderrBytes: 0 },
};

function bootsOf(areRecorded: boolean): { readonly boots: Boots; readonly summaries: string[] } {
  const summaries: string[] = [];
  const boots = new Boots(areRecorded, async (summary) => void summaries.push(summary));
  return { boots, summaries };
}

const ended = (change: Partial<StageResult> = {}): MachineEvent => ({
  type: 'stage-finished',
  result: { ...RESULT, ...change },
});

describe('a boot', () => {
  test('in a result is recorded with the stage and its time, and the run gets the same event', () => {
    const { boots, summaries } = bootsOf(true);
    const event = ended();
    expect(boots.ofStage('build', event)).toBe(event);
    boots.ofStage('build (attempt 2)', ended({ outcome: 'failed', bootMs: 999 }));
    expect(summaries).toEqual(['VM of build booted in 2.3 s', 'VM of build (attempt 2) booted in 999 ms']);
  });

  test('is not recorded for a result without one, nor for a stage without a result', () => {
    const { boots, summaries } = bootsOf(true);
    const { bootMs: _, ...without } = RESULT;
    boots.ofStage('build', { type: 'stage-finished', result: without });
    boots.ofStage('build', { type: 'stage-cancelled', stageId: 'build', execKey: 'build/0/1' });
    expect(summaries).toEqual([]);
  });

  test('a boot is not recorded in a run that its admission fixed without markers', () => {
    const { boots, summaries } = bootsOf(false);
    boots.ofStage('build', ended());
    boots.record('build and 2 more', 5);
    expect(summaries).toEqual([]);
  });

  test.each([Number.NaN, Number.POSITIVE_INFINITY, -1, '5', null, undefined, {}])(
    'a boot with a time that no worker of Voidbox returns is not recorded: %o',
    (bootMs) => {
      const { boots, summaries } = bootsOf(true);
      boots.record('build', bootMs);
      expect(summaries).toEqual([]);
    },
  );

  test('keeps its time in the summary of a stage with a long name, which the server accepts', () => {
    const { boots, summaries } = bootsOf(true);
    boots.record('ü'.repeat(400), 65_000);
    expect(summaries[0]).toMatch(/^VM of ü+… booted in 1m 05s$/);
    expect(countUtf8Bytes(summaries[0]!)).toBeLessThanOrEqual(200);
  });
});

describe('the end of a window', () => {
  test('waits until all its boots are recorded', async () => {
    const open: (() => void)[] = [];
    const boots = new Boots(true, () => new Promise((resolve) => open.push(resolve)));
    boots.record('a', 1);
    boots.record('b', 1);
    let isSettled = false;
    const settled = boots.settled().then(() => (isSettled = true));
    open[1]!();
    await new Promise((resolve) => setImmediate(resolve));
    expect(isSettled).toBe(false);
    open[0]!();
    await settled;
  });

  test('does not wait for ever for a boot whose marker contains a failure', async () => {
    const failure = new ActivityFailure('timed out', 'recordBoot', '1', 'TIMEOUT', undefined);
    const boots = new Boots(true, () => Promise.reject(failure));
    boots.record('a', 1);
    await expect(boots.settled()).resolves.toBeUndefined();
  });

  test('fails its workflow task on a worker that lacks the activity: a replay would expect the marker', async () => {
    const error = new ReferenceError("Local activity of type 'recordBoot' not registered on worker");
    const boots = new Boots(true, () => Promise.reject(error));
    boots.record('a', 1);
    await expect(boots.settled()).rejects.toBe(error);
  });
});
