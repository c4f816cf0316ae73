/** The checks of an action before any of its code runs. */
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { expect, test } from 'vitest';
import type { SkillPlace } from '../contract-session.ts';
import { SessionGuard } from './guard.ts';
import type { OpenSession, WorkflowRun } from '../ports/sessions.ts';

const PLACE: SkillPlace = {
  session: 'first',
  code: { skill: 'greeter', version: '1.0.0', codeHash: 'a'.repeat(64) },
  path: [],
  handshake: {},
};
const OPENED: OpenSession = { ...PLACE, firstRun: 'run-1', runs: ['run-1'], codes: [PLACE.code], root: 'first' };
const RUN: WorkflowRun = { taskQueue: 'sessions', firstRun: 'run-1' };

/** Calls an action in the second run of the workflow `first`. */
async function act(place: SkillPlace, opened: OpenSession | null, run: WorkflowRun | null): Promise<OpenSession> {
  const guard = new SessionGuard({
    workflow: { type: 'voidboxSession', taskQueue: 'sessions' },
    opened: { read: () => Promise.resolve(opened), write: () => Promise.reject(new Error('nothing is written')) },
    runOf: () => Promise.resolve(run),
  });
  const info = { workflowExecution: { workflowId: 'first', runId: 'run-2' }, workflowType: 'voidboxSession' };
  const environment = new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR', () => undefined) });
  return (await environment.run(() => guard.mayAct(place))) as OpenSession;
}

test('an action of a later run of the workflow is allowed', async () => {
  expect(await act(PLACE, OPENED, RUN)).toEqual(OPENED);
});

test.each<[string, SkillPlace, OpenSession | null, WorkflowRun | null]>([
  ['of a session that was not opened', PLACE, null, RUN],
  ['of other code', { ...PLACE, code: { ...PLACE.code, codeHash: 'b'.repeat(64) } }, OPENED, RUN],
  ['of a workflow on another queue', PLACE, OPENED, { ...RUN, taskQueue: 'mine' }],
  ['of another workflow with the id', PLACE, OPENED, { ...RUN, firstRun: 'run-2' }],
  ['of a workflow whose first run is not known', PLACE, OPENED, { ...RUN, firstRun: null }],
  ['of a run that the server does not know', PLACE, OPENED, null],
])('an action %s is refused', async (_what, place, opened, run) => {
  await expect(act(place, opened, run)).rejects.toMatchObject({ code: 'session/foreign' });
});
