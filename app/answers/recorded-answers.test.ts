import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { NewRunEvent, RunEventBody } from '../../domain/run/event.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Machine } from '../machine.ts';
import { answerThatStands } from './recorded-answers.ts';
import { typeCommand } from '../../test/rig/runs/typed-command.ts';

const STAGES = ['release', 'count'].map((id) => ({ id, dependsOn: [] }));

let dir: string;

/** `mixed` has ended: `release` was approved with a field, `count` rejected with one. */
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'voidbox-answered-'));
  const { events, artifacts, close } = await openStores({ stateDir: dir });
  const at = '2026-03-01T09:30:00.000Z';
  const approval = { approved: true, by: 'ada', comment: 'go', fields: { window: 'now' }, at, timedOut: false };
  const output = await artifacts.put(bytes(JSON.stringify(approval)), 'application/json');
  const failure = { code: 'stage/rejected', message: 'no', stderrTail: '' } as const;
  await events.append(
    'mixed',
    [
      { type: 'run-admitted', name: 'mixed', kind: 'workflow', hostId: 'h', stages: STAGES, outputStage: 'release' },
      ...answered('release', { outcome: 'succeeded', failure: null, by: 'ada', comment: 'go', output }),
      ...answered('count', { outcome: 'failed', failure, by: 'ada', fields: { count: 3 } }),
      { type: 'run-finished', outcome: { state: 'failed', failedStage: 'count', failure, output: null } },
    ].map((body, index): NewRunEvent => ({ id: `event/${index}`, atMs: 1_000, body: body as RunEventBody })),
  );
  await close();
});
afterEach(() => rm(dir, { recursive: true, force: true }));

function answered(stage: string, answer: object): object[] {
  const execKey = `${stage}/0/1`;
  const question = { message: 'Go?', by: [], fields: [], deadlineAtMs: null, onTimeout: 'fail' };
  return [
    { type: 'stage-asking', stage, execKey, attempt: 1, question },
    { type: 'stage-answered', stage, execKey, ...answer },
  ];
}

async function* bytes(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

const type = (...line: readonly string[]) => typeCommand(line, dir, { HOME: dir, VOIDBOX_STATE_DIR: dir });

test('the recorded answer gets its receipt again after the end of the run', async () => {
  const yes = await type('approve', 'mixed', 'release', '--by', 'ada', '-c', 'go', '--field', 'window=now', '--json');
  expect([yes.code, JSON.parse(yes.stdout)]).toEqual([
    0,
    {
      runId: 'mixed',
      stage: 'release',
      attempt: 1,
      decision: 'approve',
      by: 'ada',
      verified: false,
      comment: 'go',
      at: '2026-03-01T09:30:00.000Z',
    },
  ]);
  const no = await type('reject', 'mixed', 'count', '--by', 'ada', '--field', 'count=3');
  expect([no.code, no.stdout]).toEqual([0, 'count of mixed rejected by ada\n']);
});

test.each<[string, readonly string[]]>([
  ['by another person', ['approve', 'mixed', 'release', '--by', 'bob', '-c', 'go', '--field', 'window=now']],
  ['with another comment', ['approve', 'mixed', 'release', '--by', 'ada', '--field', 'window=now']],
  ['with other fields', ['approve', 'mixed', 'release', '--by', 'ada', '-c', 'go', '--field', 'window=later']],
  ['without its fields', ['approve', 'mixed', 'release', '--by', 'ada', '-c', 'go']],
  ['of the other kind', ['reject', 'mixed', 'release', '--by', 'ada', '-c', 'go', '--field', 'window=now']],
])('an answer %s is refused, and the message names the recorded answer', async (_what, line) => {
  const { code, stdout, stderr } = await type(...line);
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toContain(
    'run mixed has ended (failed) and accepts no answers; release was approved by ada at 1970-01-01T00:00:01.000Z',
  );
});

test('an answer to a stage that was not asked, or to one of several, names what was answered', async () => {
  const both = 'release was approved by ada at 1970-01-01T00:00:01.000Z; count was rejected by ada at';
  for (const line of [
    ['approve', 'mixed', 'relaese'],
    ['approve', 'mixed'],
  ]) {
    const { code, stderr } = await type(...line, '--by', 'ada');
    expect(code).toBe(1);
    expect(stderr).toContain(both);
  }
  expect((await type('approve', 'mixed', 'relaese')).stderr).toContain('and has no stage "relaese"');
});

test('an artifact that cannot be read now is reported as such, and not as another answer', async () => {
  const stores = await openStores({ stateDir: dir });
  try {
    const unreadable = new CodedError('store/io', 'cannot open an artifact: EMFILE: too many open files');
    const open = (): never => {
      throw unreadable;
    };
    const machine = {
      env: { temporalConfigured: false, stateDir: dir },
      stores: async () => ({ ...stores, artifacts: { ...stores.artifacts, open } }),
    } as unknown as Machine;
    const given = { decision: 'approve', by: 'ada', comment: 'go', fields: { window: 'now' } } as const;
    await expect(answerThatStands('mixed', 'release', given, machine)).rejects.toBe(unreadable);
  } finally {
    await stores.close();
  }
});
