/** Sessions that a build opened which kept no records, when their action is under way as this build comes. */
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { expect, test } from 'vitest';
import type { SkillPlace } from '../contract-session.ts';
import { SessionGuard } from './guard.ts';
import type { OpenSession, WorkflowRun } from '../ports/sessions.ts';

const KEPT_SINCE_MS = 1_000;
const PLACE: SkillPlace = {
  session: 'first',
  code: { skill: 'greeter', version: '1.0.0', codeHash: 'a'.repeat(64) },
  path: [],
  handshake: {},
};
const RUN: WorkflowRun = {
  type: 'voidboxSession',
  taskQueue: 'sessions',
  firstRun: 'run-1',
  startedAtMs: KEPT_SINCE_MS - 1,
};

function guarded(run: WorkflowRun | null): {
  readonly mayAct: (place: SkillPlace) => Promise<OpenSession>;
  readonly written: OpenSession[];
} {
  const written: OpenSession[] = [];
  const opened = {
    keptSinceMs: KEPT_SINCE_MS,
    read: () => Promise.resolve(written.at(-1) ?? null),
    write: (record: OpenSession, isAdopted?: boolean) => {
      expect(isAdopted).toBe(true);
      written.push(record);
      return Promise.resolve();
    },
  };
  const guard = new SessionGuard({
    workflow: { type: 'voidboxSession', taskQueue: 'sessions' },
    opened,
    runOf: () => Promise.resolve(run),
  });
  const info = { workflowExecution: { workflowId: 'first', runId: 'run-2' }, workflowType: 'voidboxSession' };
  const environment = new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR', () => undefined) });
  return { written, mayAct: async (place) => (await environment.run(() => guard.mayAct(place))) as OpenSession };
}

test('an action that was under way is taken over, and what it was opened with is written down', async () => {
  const { mayAct, written } = guarded(RUN);
  const record = await mayAct(PLACE);
  expect(record).toMatchObject({ session: 'first', firstRun: 'run-1', runs: ['run-2'], codes: [PLACE.code] });
  expect(written).toEqual([record]);
  await expect(mayAct({ ...PLACE, code: { ...PLACE.code, codeHash: 'b'.repeat(64) } })).rejects.toMatchObject({
    code: 'session/foreign',
  });
});

test.each<[string, WorkflowRun | null]>([
  ['began since records are kept', { ...RUN, startedAtMs: KEPT_SINCE_MS }],
  ['is on another queue', { ...RUN, taskQueue: 'mine' }],
  ['has no first run', { ...RUN, firstRun: null }],
  ['the server does not know', null],
])('an action of a workflow that %s is refused without a record', async (_what, run) => {
  const { mayAct, written } = guarded(run);
  await expect(mayAct(PLACE)).rejects.toMatchObject({ code: 'session/foreign' });
  expect(written).toEqual([]);
});
