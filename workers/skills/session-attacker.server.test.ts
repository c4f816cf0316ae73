/**
 * An attacker reaches the Temporal server of sessions, schedules their activities with chosen arguments, and starts
 * workflows with ids of sessions. The attacker may start registered skills, like every client; every other request
 * must fail.
 */
import { NativeConnection, Worker } from '@temporalio/worker';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { SkillCode } from '../../activities/contract-session.ts';
import type { Command } from '../../domain/step-machine/command.ts';
import type { SkillFacts } from '../../domain/step-machine/facts.ts';
import type { SessionState } from '../../domain/step-machine/state.ts';
import { SESSION_TASK_QUEUE, SESSION_WORKFLOW_TYPE } from '../../workflows/messages.ts';
import {
  advanceSession as advanceSessionHere,
  createSession,
  startSession as startSessionHere,
} from '../../skill-kit/drive/drive.ts';
import { skillOf, TERMINAL } from '../../test/rig/skills/erased-skill.ts';
import { advanceSession, endOfSession, startSession, viewSession } from '../../client/sessions/sessions.ts';
import type { Attack } from '../../test/rig/runs/attacker-workflow.ts';
import { startSessionRig, type SessionRig } from '../../test/rig/skills/session-rig.ts';
import { entriesBelow } from '../../test/storm/leftovers.ts';
import { temporalCliForTests } from '../../test/rig/servers/temporal-cli.ts';

const EVIL_QUEUE = 'evil';
/** Pays what was approved, and no more than 10. */
const PAYER = `
export default skill({ name: 'payer', version: '1.0.0', entry: 'approve', params: z.object({ most: z.number().max(10) }), observers: { onStepComplete: () => { log('observed'); } } })
  .step('approve', {
    prompt: 'How much?', response: z.object({ amount: z.number().max(10) }), retry: { maxAttempts: 3, backoffMs: 1 },
    action: ({ response }) => { log('paid ' + response.amount); return response.amount; }, next: 'end',
  })
  .step('end', { prompt: 'Well?', response: z.object({}), next: 'more' })
  .step('more', { call: 'inner', next: terminal })
  .subskill('inner', skill({ name: 'inner', entry: 'ask', params: z.object({ n: z.number().max(10) }) })
    .step('ask', { prompt: ({ params }) => { log('inner ' + params.n); return 'n?'; }, response: z.object({}), next: terminal }).build(), { params: () => ({ n: 1 }) })
  .build();
`;

interface Forged {
  readonly state: SessionState;
  readonly facts: SkillFacts;
  readonly command: Command;
}

let rig: SessionRig;
let evil: Worker;
let evilEnds: Promise<void>;
let code: SkillCode;

beforeAll(async () => {
  rig = await startSessionRig(await temporalCliForTests());
  rig.writeSkill('payer', PAYER);
  const { address } = rig.runs.connection.options as { readonly address: string };
  const connection = await NativeConnection.connect({ address });
  evil = await Worker.create({
    connection,
    taskQueue: EVIL_QUEUE,
    workflowsPath: fileURLToPath(new URL('../../test/rig/runs/attacker-workflow.ts', import.meta.url)),
  });
  evilEnds = evil.run().then(() => connection.close());
  await startSession(rig.runs.client, 'victim', { skill: 'payer', params: { most: 5 } });
  const { skill, version, codeHash } = await viewSession(rig.runs.client, 'victim');
  code = { skill, version, codeHash };
});

afterAll(async () => {
  evil?.shutdown();
  await evilEnds;
  await rig?.stop();
});

/** Makes a state with an approval that no client may give, and the action that follows from it. */
async function forge(session: string): Promise<Forged> {
  const lenient = skillOf(
    {
      approve: {
        prompt: 'p',
        response: z.any(),
        retry: { maxAttempts: 3 },
        action: () => new Promise(() => undefined),
        next: TERMINAL,
      },
    },
    { name: code.skill, version: code.version },
  );
  const commands: Command[] = [];
  const running = createSession(lenient, {
    session,
    codeHash: code.codeHash,
    params: { most: 5 },
    onCommand: (one) => void commands.push(one),
  });
  await startSessionHere(running);
  void advanceSessionHere(running, { step: 'approve', output: { amount: 1_000_000 } });
  while (!commands.some(({ type }) => type === 'run-action')) await sleep(5);
  return {
    state: running.state,
    facts: running.runtime.facts,
    command: commands.find(({ type }) => type === 'run-action')!,
  };
}

async function callsFor(session: string): Promise<Required<Attack>['calls']> {
  const place = { session, code, path: [], handshake: {} };
  const { state, command } = await forge(session);
  return [
    { activity: 'openSession', argument: { session, request: { skill: 'payer', params: { most: 5 } } } },
    { activity: 'sessionTurn', argument: { ...place, state, event: { type: 'start', request: 'r' } } },
    { activity: 'sessionAction', argument: { ...place, state, command } },
    {
      activity: 'observe',
      argument: { ...place, events: [{ number: 1, skill: [], observer: 'onStepComplete', payload: {} }] },
    },
    { activity: 'flushRecords', argument: { session, previous: null, records: [] } },
  ];
}

async function runEvil(type: string, workflowId: string, attack: Attack): Promise<readonly (string | null)[]> {
  return (await rig.runs.client.workflow.execute(type, {
    workflowId,
    taskQueue: EVIL_QUEUE,
    args: [attack],
    workflowExecutionTimeout: 60_000,
  })) as (string | null)[];
}

describe('an activity of sessions', () => {
  test.each(['victim', '../../planted', 'never-opened'])(
    'does nothing if it is scheduled without a workflow, for session %s',
    async (session) => {
      const before = entriesBelow(rig.stateDir);
      for (const { activity, argument } of await callsFor(session)) {
        const asked = rig.runs.client.activity.execute(activity, {
          id: `${activity}-${session}`.replaceAll('/', '_'),
          taskQueue: SESSION_TASK_QUEUE,
          args: [argument],
          startToCloseTimeout: 20_000,
          retry: { maximumAttempts: 1 },
        });
        await expect(asked, activity).rejects.toMatchObject({ cause: { type: 'session/foreign' } });
      }
      expect(rig.lines()).toEqual([]);
      expect(entriesBelow(rig.stateDir)).toEqual(before);
    },
  );

  test.each([
    [SESSION_WORKFLOW_TYPE, 'unknown'],
    ['anything', 'other-type'],
  ])('does nothing if a foreign workflow %s schedules it, also for another session', async (type, session) => {
    for (const target of [session, 'victim']) {
      const outcomes = await runEvil(type, session, { taskQueue: SESSION_TASK_QUEUE, calls: await callsFor(target) });
      for (const outcome of outcomes) expect(outcome).toMatch(/^session\/foreign: /);
    }
    expect(rig.lines()).toEqual([]);
  });

  test('that a workflow schedules which took the id of an ended session does nothing', async () => {
    await startSession(rig.runs.client, 'ended', { skill: 'payer', params: { most: 5 } });
    await rig.runs.client.workflow.getHandle('ended').terminate();
    const outcomes = await runEvil(SESSION_WORKFLOW_TYPE, 'ended', {
      taskQueue: SESSION_TASK_QUEUE,
      calls: await callsFor('ended'),
    });
    for (const outcome of outcomes) expect(outcome).toMatch(/^session\/foreign: /);
    expect(rig.lines()).toEqual([]);
  });
});

/** Returns the state that a session hands to its next run: here with an action whose retry is long overdue. */
async function carriedOf(session: string): Promise<unknown> {
  const { state, facts } = await forge(session);
  const [cursor] = state.cursors;
  const waiting = {
    ...cursor!,
    phase: { kind: 'backoff', response: { amount: 1_000_000 }, attempt: 1, failures: [], dueMs: 2 },
  };
  return {
    carried: 1,
    request: { skill: 'payer' },
    opened: { code, facts, params: null, observers: [':onStepComplete'], searchAttributes: [] },
    state: { ...state, cursors: [waiting] },
    last: null,
    answers: [],
    observed: 0,
  };
}

describe('a session', () => {
  test('that is started with what only an earlier run of it may carry is not opened', async () => {
    const handle = await rig.runs.client.workflow.start(SESSION_WORKFLOW_TYPE, {
      workflowId: 'carried',
      taskQueue: SESSION_TASK_QUEUE,
      args: [await carriedOf('carried')],
    });
    await expect(handle.result()).rejects.toMatchObject({ cause: { type: 'skill/params' } });
    expect(rig.lines()).toEqual([]);
  });

  test("that another client's workflow continues as does not move", async () => {
    await rig.runs.client.workflow.start(SESSION_WORKFLOW_TYPE, {
      workflowId: 'sent-on',
      taskQueue: EVIL_QUEUE,
      args: [{ taskQueue: SESSION_TASK_QUEUE, carried: await carriedOf('sent-on') } satisfies Attack],
    });
    // Its action is due at once, and once more after a moment.
    await sleep(4_000);
    expect(rig.lines()).toEqual([]);
    const { type } = await rig.runs.client.workflow.getHandle('sent-on').describe();
    expect(type).toBe(SESSION_WORKFLOW_TYPE);
    await rig.runs.client.workflow.getHandle('sent-on').terminate();
  });

  test.each([
    ['by its id too', 'victim~7'],
    ['under an id of its own', 'nobodys'],
  ])(
    'that says another one has called it, %s, is not opened: its params were not looked at',
    async (_how, workflowId) => {
      const request = {
        skill: 'payer',
        path: ['inner'],
        params: { n: 1_000_000 },
        handshake: {},
        calledWith: { code, prefix: 'more/' },
      };
      const handle = await rig.runs.client.workflow.start(SESSION_WORKFLOW_TYPE, {
        workflowId,
        taskQueue: SESSION_TASK_QUEUE,
        args: [request],
      });
      await expect(handle.result()).rejects.toMatchObject({ cause: { type: 'session/foreign' } });
      expect(rig.lines()).toEqual([]);
      expect(await endOfSession(rig.runs.client, workflowId)).toMatchObject({ code: 'session/foreign' });
    },
  );

  test.each([
    [{ skill: 'payer', codeHash: '../../../etc' }, '`codeHash` is not'],
    [{ skill: 'payer', path: ['..', 5] }, '`path` is not'],
    [{ skill: 'payer', handshake: { toolsAvailable: 'all' } }, '`handshake.toolsAvailable` is not'],
    [{ skill: 'payer', version: {} }, '`version` is not'],
    [{ skill: 'x'.repeat(300) }, 'names its skill'],
  ])('is not opened for %j', async (request, message) => {
    const workflowId = `request-${message.replaceAll(/\W/g, '')}`;
    const handle = await rig.runs.client.workflow.start(SESSION_WORKFLOW_TYPE, {
      workflowId,
      taskQueue: SESSION_TASK_QUEUE,
      args: [request],
    });
    await expect(handle.result()).rejects.toMatchObject({
      cause: { type: 'skill/params', message: expect.stringContaining(message) as string },
    });
  });

  test('continues for each client that answers it, with all that it calls', async () => {
    const at = await advanceSession(rig.runs.client, 'victim', { step: 'approve', turn: 1, output: { amount: 7 } });
    expect(at).toMatchObject({ kind: 'prompt', step: 'end' });
    expect(rig.lines()).toEqual(expect.arrayContaining(['paid 7']));
    expect(await advanceSession(rig.runs.client, 'victim', { step: 'end', turn: 2, output: {} })).toMatchObject({
      kind: 'prompt',
      step: 'more/ask',
    });
    expect(rig.lines()).toContain('inner 1');
  });

  test('whose record on this host was damaged is reported as damaged, and not taken for another one', async () => {
    await startSession(rig.runs.client, 'damaged', { skill: 'payer', params: { most: 5 } });
    const file = join(rig.stateDir, 'sessions/damaged/opened.json');
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({
      session: 'damaged',
      path: [],
      root: 'damaged',
      codes: [code],
    });
    writeFileSync(file, '{');
    expect(
      await advanceSession(rig.runs.client, 'damaged', { step: 'approve', turn: 1, output: { amount: 1 } }),
    ).toMatchObject({
      kind: 'error',
      message: expect.stringContaining('is not what was written when session "damaged" was opened') as string,
    });
    expect(existsSync(file)).toBe(true);
  });
});
