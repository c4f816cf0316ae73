/** Sessions on a real Temporal server, with a worker in a process of its own. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { PromptResult } from '../../domain/step-machine/result.ts';
import { NoSuchSessionError, SessionExistsError } from '../../client/sessions/errors.ts';
import { listSessions } from '../../client/sessions/list.ts';
import { cancelSession, recordsOfSession } from '../../client/sessions/sessions.ts';
import { sessionCalls } from '../../test/rig/skills/session-calls.ts';
import { startSessionRig, TURN_LIMIT_MS, type SessionRig } from '../../test/rig/skills/session-rig.ts';
import { recordHistoriesOf, recordingDir } from '../../test/rig/runs/record-histories.ts';
import {
  CALLER,
  COUNTER,
  EVIL,
  GREETER,
  LONG,
  PAIR,
  REVIEW,
  versioned,
  waiter,
} from '../../test/rig/skills/session-skills.ts';
import { temporalCliForTests } from '../../test/rig/servers/temporal-cli.ts';

let rig: SessionRig;

beforeAll(async () => {
  // A session of some dozen turns has this many events, so that it continues as new several times within a test.
  rig = await startSessionRig(await temporalCliForTests(), [
    '--dynamic-config-value',
    'limit.historyCount.suggestContinueAsNew=400',
  ]);
  rig.writeSkill('greeter', GREETER);
  rig.writeSkill('evil', EVIL);
  rig.writeSkill('counter', COUNTER);
  rig.writeSkill('caller', CALLER);
  rig.writeSkill('review', REVIEW);
  rig.writeSkill('long', LONG);
});

afterAll(async () => {
  await recordHistories();
  await rig?.stop();
});

/** One that begins with what an earlier run of it carried over. */
async function carryOn(): Promise<void> {
  let at = prompt(await start('carried', 'counter'));
  const { runId } = await rig.runs.client.workflow.getHandle('carried').describe();
  for (let left = 5; left > 0;) {
    at = prompt(await answer('carried', at, { n: 1 }));
    if ((await rig.runs.client.workflow.getHandle('carried').describe()).runId !== runId) left -= 1;
  }
  await answer('carried', at, { n: -1 });
}

async function recordHistories(): Promise<void> {
  if (recordingDir() === null) return;
  await carryOn();
  await recordHistoriesOf(rig.runs.client, [
    'happy',
    'race',
    'to-cancel',
    'calls',
    'parallel',
    'evil-loop',
    'migrated',
    'unopened',
    'carried',
    'told',
  ]);
}

const { prompt, start, answer, view, until } = sessionCalls(() => rig);

/** Returns what the Temporal UI shows for the session. */
async function pageOf(session: string): Promise<string> {
  const { currentDetails } = (await rig.runs.client.workflow
    .getHandle(session)
    .query('__temporal_workflow_metadata')) as { currentDetails: string };
  return currentDetails;
}

/** Returns the summaries that the Temporal UI shows in the rows of its history. */
async function summariesOf(session: string): Promise<readonly string[]> {
  const { events } = await rig.runs.client.workflow.getHandle(session).fetchHistory();
  return (events ?? []).flatMap(({ userMetadata }) => {
    const data = userMetadata?.summary?.data;
    return data ? [JSON.parse(Buffer.from(data).toString('utf8')) as string] : [];
  });
}

describe('a session', () => {
  test('shows in its history which step each call was for, however long its name is', async () => {
    const asked = prompt(await start('summaries', 'long'));
    expect(await answer('summaries', asked, { ok: true })).toMatchObject({ kind: 'done' });
    const [, opened, started, answered, acted, ended, ...others] = await summariesOf('summaries');
    expect({ opened, started, others }).toEqual({ opened: 'long', started: 'start', others: [] });
    for (const text of [answered, acted, ended]) expect(text).toMatch(new RegExp(`^x{100,}…$`));
    await answer('summaries-short', prompt(await start('summaries-short', 'greeter', { place: 'Ulm' })), {
      name: 'Ada',
    });
    expect((await summariesOf('summaries-short')).slice(1)).toEqual(['greeter', 'start', 'ask: answer']);
  });

  test('goes from prompt to prompt to its final output, and can be read on the way', async () => {
    const first = prompt(await start('happy', 'greeter', { place: 'Ulm' }));
    expect(first).toMatchObject({ step: 'ask', turn: 1, preamble: expect.any(String) });
    expect(first.prompt).toContain('in Ulm?');
    const second = prompt(await answer('happy', first, { name: 'Ada' }));
    expect(second).toMatchObject({ step: 'confirm', completed: { step: 'ask', response: { name: 'Ada' } } });
    expect(await view('happy')).toMatchObject({
      skill: 'greeter',
      status: 'open',
      visits: { ask: 1 },
      last: { step: 'ask' },
      open: [{ step: 'confirm' }],
    });
    const { raw } = await rig.runs.client.workflow.getHandle('happy').describe();
    expect(raw.executionConfig?.userMetadata?.summary).toBeTruthy();
    for (const text of [
      'greeter',
      'confirm',
      'turn 2',
      'Prompt and status: `voidbox session status happy`',
      '| ask\u00a0\u00a0\u00a0 | 1',
      'Ada',
    ])
      expect(await pageOf('happy')).toContain(text);
    const again = prompt(await answer('happy', second, { yes: false }));
    const third = prompt(await answer('happy', again, { name: 'Grace' }));
    expect(await answer('happy', third, { yes: true })).toMatchObject({ kind: 'done', finalOutput: 'Hello Grace' });
    expect(await rig.runs.client.workflow.getHandle('happy').result()).toEqual({ finalOutput: 'Hello Grace' });
    expect(await answer('happy', third, { yes: false })).toMatchObject({ kind: 'error', error: 'order', retry: false });
    expect((await recordsOfSession(rig.runs.client, 'happy')).records.map(({ step }) => step)).toEqual([
      'ask',
      'confirm',
      'ask',
      'confirm',
      'end',
    ]);
  });

  test('is refused with its reason', async () => {
    await expect(start('no-such', 'nothing')).rejects.toMatchObject({
      code: 'skill/unknown',
      message: expect.stringMatching(/loaded: .*greeter 1\.0\.0/),
    });
    await expect(start('bad-params', 'greeter', { place: 7 })).rejects.toMatchObject({
      code: 'skill/params',
      message: expect.stringContaining('place'),
    });
    await expect(start('../../etc', 'greeter', { place: 'x' })).rejects.toMatchObject({
      code: 'skill/params',
      message: expect.stringContaining('not a session id'),
    });
    await start('twice', 'greeter', { place: 'x' });
    await expect(start('twice', 'greeter', { place: 'x' })).rejects.toThrow(SessionExistsError);
  });

  test('gives back an answer that does not fit, and neither store nor visits change', async () => {
    const first = prompt(await start('misfit', 'greeter', { place: 'x' }));
    const before = await view('misfit');
    expect(await answer('misfit', first, { name: 'A' })).toMatchObject({
      kind: 'error',
      error: 'validation',
      retry: true,
      step: 'ask',
    });
    expect(await view('misfit')).toMatchObject({ visits: before.visits, turn: before.turn, last: null });
    expect((await recordsOfSession(rig.runs.client, 'misfit')).records).toEqual([]);
    expect(prompt(await answer('misfit', first, { name: 'Ada' })).step).toBe('confirm');
  });

  test('lets one of two clients answer a turn, and tells the other', async () => {
    const first = prompt(await start('race', 'greeter', { place: 'x' }));
    const both = await Promise.all([answer('race', first, { name: 'Ada' }), answer('race', first, { name: 'Bob' })]);
    const won = both.filter(({ kind }) => kind === 'prompt');
    const lost = both.filter(({ kind }) => kind === 'error');
    expect([won.length, lost.length]).toEqual([1, 1]);
    expect(lost[0]).toMatchObject({
      retry: false,
      message: expect.stringMatching(/Turn 1 of step "ask" .*(another client|answered before)/),
    });
    expect((await recordsOfSession(rig.runs.client, 'race')).records).toHaveLength(1);
  });

  test('answers what it answered when the same answer comes again', async () => {
    const first = prompt(await start('repeat', 'greeter', { place: 'x' }));
    const [one, other] = await Promise.all([
      answer('repeat', first, { name: 'Ada' }),
      answer('repeat', first, { name: 'Ada' }),
    ]);
    expect(other).toEqual(one);
    expect(await answer('repeat', first, { name: 'Ada' })).toEqual(one);
    expect((await recordsOfSession(rig.runs.client, 'repeat')).records).toHaveLength(1);
  });

  test('is cancelled, and listed as such', async () => {
    await start('to-cancel', 'greeter', { place: 'x' });
    expect(await cancelSession(rig.runs.client, 'to-cancel')).toBe(true);
    const page = await pageOf('to-cancel');
    expect(page).toContain('cancelled, it was cancelled by a client');
    expect(page).not.toContain('asking');
    expect(await answer('to-cancel', { step: 'ask', turn: 1 }, { name: 'Ada' })).toMatchObject({ error: 'cancelled' });
    await until('the list knows', async () =>
      (await listSessions(rig.runs.client, { limit: 50 })).some(
        ({ session, state, skill }) => session === 'to-cancel' && state === 'cancelled' && skill === 'greeter',
      ),
    );
  });

  test('that was ended from outside, or never opened, reads as what it is', async () => {
    await start('terminated', 'greeter', { place: 'x' });
    await rig.runs.client.workflow.getHandle('terminated').terminate('by hand');
    expect(await view('terminated')).toMatchObject({
      status: 'cancelled',
      open: [],
      current: { error: 'cancelled', message: expect.stringContaining('from outside') },
    });
    expect(await answer('terminated', { step: 'ask', turn: 1 }, { name: 'Ada' })).toMatchObject({ error: 'cancelled' });
    await expect(start('unopened', 'greeter', { place: 7 })).rejects.toMatchObject({ code: 'skill/params' });
    expect(await pageOf('unopened')).toContain('Could not be opened: ');
    expect(await view('unopened')).toMatchObject({
      status: 'failed',
      current: { error: 'failed', message: expect.stringContaining('place') },
    });
    expect(await answer('unopened', { step: 'ask', turn: 1 }, { name: 'Ada' })).toMatchObject({
      error: 'failed',
      message: expect.stringContaining('place'),
    });
  });

  test(
    'answers everybody when it is cancelled, and when it fails, while others wait for their turn',
    { timeout: 60_000 },
    async () => {
      rig.writeSkill('pair', PAIR);
      const first = prompt(await start('queued', 'pair'));
      const answers = [answer('queued', first, {}), answer('queued', first.open![0]!, {})];
      await until('the first of them has its turn', async () => rig.lines().includes('saving'));
      expect(await cancelSession(rig.runs.client, 'queued')).toBe(true);
      for (const result of await Promise.all(answers))
        expect(result).toMatchObject({ kind: expect.stringMatching(/prompt|error/) });
      const again = prompt(await start('failing', 'pair'));
      const strict = answer(
        'failing',
        again.open!.find(({ step }) => step === 'strict')!,
        { yes: 'no' },
      );
      await until('the answer has its turn', async () => rig.lines().includes('judging'));
      const late = answer('failing', again, {});
      expect(await strict).toMatchObject({ kind: 'error', error: 'limit' });
      expect(await late).toMatchObject({ kind: 'error', error: 'failed' });
      await expect(rig.runs.client.workflow.getHandle('failing').result()).rejects.toThrow('Workflow execution failed');
    },
  );

  test('is what is cancelled, and no other workflow', async () => {
    const run = await rig.runs.client.workflow.start('voidboxRun', {
      workflowId: 'a-run',
      taskQueue: 'nobody',
      args: [],
    });
    await expect(cancelSession(rig.runs.client, 'a-run')).rejects.toThrow(NoSuchSessionError);
    const { historyLength } = await run.describe();
    expect(historyLength).toBe(2);
    await run.terminate();
  });

  test('runs a sub-skill as a session of its own, waits by a timer, and comes back', async () => {
    const first = prompt(await start('calls', 'caller'));
    const inner = prompt(await answer('calls', first, { topic: 'safety' }));
    expect(inner).toMatchObject({ step: 'audit/ask', prompt: expect.stringContaining('What of safety?') });
    expect((await view('calls')).current).toMatchObject({ kind: 'prompt', step: 'audit/ask' });
    const more = prompt(await answer('calls', inner, { text: 'doors' }));
    expect(more.step).toBe('audit/more');
    expect(await answer('calls', more, { text: 'windows' })).toMatchObject({ kind: 'waiting', step: 'rest' });
    expect(await pageOf('calls')).toMatch(/\*\*rest\*\* \(waiting, turn \d+, until 2\d{3}-/);
    await until('the wait is over', async () => (await view('calls')).current?.kind === 'prompt');
    const end = prompt((await view('calls')).current!);
    expect(end.prompt).toContain('Got doors, windows. Fine?');
    expect(await answer('calls', end, { fine: true })).toMatchObject({ kind: 'done' });
  });

  test('does parallel steps at once, and continues when a person lets a deadline pass', async () => {
    const first = prompt(await start('parallel', 'review'));
    const [other] = first.open!;
    // Neither action ends before both have begun.
    const both = await Promise.all([
      answer('parallel', first, { note: 'a' }),
      answer('parallel', other!, { note: 'b' }),
    ]);
    expect(both.some((result) => result.kind === 'prompt' && result.step === 'sign')).toBe(true);
    expect(await pageOf('parallel')).toMatch(/\*\*sign\*\* \(waits for boss until 2\d{3}-[^,]*, turn \d+\)/);
    await until('nobody signs', async () => (await view('parallel')).open.some(({ step }) => step === 'late'));
    const late = prompt((await view('parallel')).current!);
    expect(late.prompt).toContain('Nobody signed style:a safety:b');
  });
});

describe('code that harms', () => {
  const fresh = async (session: string): Promise<PromptResult> => prompt(await start(session, 'evil'));

  test.each([
    ['loop', new RegExp(`did not return within ${TURN_LIMIT_MS} ms`)],
    ['exit', /exit code 7/],
    ['abort', /signal SIGABRT/],
    ['throw', /no thanks/],
    ['huge', /at most 262144/],
  ])('a callback that does "%s" costs its process and nothing else', async (said, message) => {
    const starts = rig.starts();
    const first = await fresh(`evil-${said}`);
    const neighbour = prompt(await start(`evil-${said}-neighbour`, 'evil'));
    const failing = answer(`evil-${said}`, first, { said });
    expect(prompt(await answer(`evil-${said}-neighbour`, neighbour, { said: 'well' })).step).toBe('act');
    expect(await failing).toMatchObject({
      kind: 'error',
      error: 'action',
      retry: true,
      message: expect.stringMatching(message),
    });
    const now = await view(`evil-${said}`);
    expect(now).toMatchObject({ status: 'open', visits: {}, last: null });
    expect(prompt(await answer(`evil-${said}`, prompt(now.current!), { said: 'well' })).step).toBe('act');
    expect(rig.starts()).toBe(starts);
  });

  test.each([
    ['loop', /timeoutMs of 500 and did not listen/],
    ['exit', /exit code 8/],
  ])('an action that does "%s" fails, and its step can be answered again', async (how, message) => {
    const acting = prompt(await answer(`act-${how}`, await fresh(`act-${how}`), { said: 'x' }));
    expect(await answer(`act-${how}`, acting, { how })).toMatchObject({
      error: 'action',
      retry: true,
      message: expect.stringMatching(message),
    });
    const again = prompt((await view(`act-${how}`)).current!);
    expect(again.turn).toBeGreaterThan(acting.turn!);
    expect(await answer(`act-${how}`, again, { how: 'well' })).toMatchObject({
      kind: 'done',
      finalOutput: { how: 'well' },
    });
  });
});

test(
  'a session that has moved records elsewhere tells its observers of its whole path',
  { timeout: 60_000 },
  async () => {
    let at = prompt(await start('told', 'counter'));
    for (let n = 1; n <= 40; n += 1) at = prompt(await answer('told', at, { n: 1 }));
    expect((await recordsOfSession(rig.runs.client, 'told')).flushed).toBeGreaterThan(0);
    await answer('told', at, { n: -1 });
    await rig.runs.client.workflow.getHandle('told').result();
    // The observer also gets the counts of sessions of other tests.
    expect(rig.lines().filter((line) => line.startsWith('counted by 42 '))).toEqual([
      'counted by 42 steps, the last one is end',
    ]);
  },
);

describe('code that is replaced under a live session', () => {
  const begin = async (session: string): Promise<PromptResult> =>
    prompt(await answer(session, prompt(await start(session, 'versioned')), { a: 'first' }));

  test('continues with the code that it began with, as long as that code is kept', async () => {
    rig.writeSkill('versioned', versioned('old', '1.0.0'));
    const second = await begin('kept');
    rig.writeSkill('versioned', versioned('new', '1.1.0'));
    await sleep(1_100);
    expect(prompt(await start('fresh', 'versioned')).prompt).toContain('new one');
    expect(prompt(await answer('kept', second, { b: 'x' })).prompt).toContain('old three');
  });

  test('goes over to code that declares how', async () => {
    rig.writeSkill('versioned', versioned('old', '2.0.0'));
    const second = await begin('migrated');
    rig.writeSkill(
      'versioned',
      versioned('new', '2.1.0', ", migrations: [{ from: '2.0.0', renamedSteps: { two: 'second' } }]", 'second'),
    );
    await sleep(1_100);
    // The client names the step as it was asked.
    expect(prompt(await answer('migrated', second, { b: 'x' })).prompt).toContain('new three');
    expect(await view('migrated')).toMatchObject({ version: '2.1.0', visits: { one: 1, second: 1 } });
  });

  test(
    'does not continue without any, reports it to the client that answers, and can be cancelled',
    { timeout: 60_000 },
    async () => {
      const old = waiter('1.0.0');
      rig.writeSkill('waiter', old);
      for (const session of ['blocked', 'back']) await answer(session, prompt(await start(session, 'waiter')), {});
      const { codeHash } = await view('blocked');
      rig.writeSkill('waiter', waiter('2.0.0'));
      rmSync(join(rig.stateDir, 'skills', codeHash), { recursive: true });
      for (const session of ['blocked', 'back'])
        await until('it is blocked', async () => (await view(session)).blocked !== null);
      // Neither waits for the code, which does not come.
      expect(await answer('blocked', { step: 'rest', turn: 2 }, {})).toMatchObject({
        error: 'away',
        retry: true,
        message: expect.stringContaining('migrations'),
      });
      expect(await cancelSession(rig.runs.client, 'blocked')).toBe(true);
      rig.writeSkill('waiter', old);
      await sleep(1_100);
      // A client need not wait for the next retry; that may already have happened.
      await answer('back', { step: 'rest', turn: 2 }, {});
      await until('it has gone on', async () => (await view('back')).current?.kind === 'prompt');
    },
  );

  test('is refused and unchanged while the code that it began with is missing, and continues when the code is back', async () => {
    const old = versioned('old', '3.0.0');
    rig.writeSkill('versioned', old);
    const second = await begin('refused');
    const { codeHash } = await view('refused');
    rig.writeSkill('versioned', versioned('new', '3.1.0'));
    rmSync(join(rig.stateDir, 'skills', codeHash), { recursive: true });
    await sleep(1_100);
    expect(await answer('refused', second, { b: 'x' })).toMatchObject({
      kind: 'error',
      error: 'away',
      retry: true,
      message: expect.stringMatching(/begun with version 3\.0\.0; this is version 3\.1\.0.*migrations/s),
    });
    expect(await view('refused')).toMatchObject({ version: '3.0.0', visits: { one: 1 }, turn: second.turn });
    rig.writeSkill('versioned', old);
    await sleep(1_100);
    expect(prompt(await answer('refused', second, { b: 'x' })).prompt).toContain('old three');
  });
});
