/**
 * Slow tests of sessions on a real Temporal server: a killed worker is noticed after ten seconds, and a session has
 * thousands of turns. Each lane has a server and a worker of its own and runs at the same time as the others.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { listSessions } from '../../client/sessions/list.ts';
import { recordsOfSession } from '../../client/sessions/sessions.ts';
import { readSessionHistory } from '../../store/open-session-stores.ts';
import { recordHistoriesOf } from '../../test/rig/runs/record-histories.ts';
import { sessionCalls, type SessionCalls } from '../../test/rig/skills/session-calls.ts';
import { startSessionRig, type SessionRig } from '../../test/rig/skills/session-rig.ts';
import { COUNTER, DEPLOYER, EVIL } from '../../test/rig/skills/session-skills.ts';
import { temporalCliForTests } from '../../test/rig/servers/temporal-cli.ts';

interface Lane extends SessionCalls {
  readonly rig: () => SessionRig;
}

/** Starts a lane for the calling suite. `recorded`: the sessions whose histories the replay test uses. */
function useLane(
  skills: Readonly<Record<string, string>>,
  recorded: readonly string[] = [],
  serverArgs: readonly string[] = [],
): Lane {
  let rig: SessionRig;
  beforeAll(async () => {
    rig = await startSessionRig(await temporalCliForTests(), serverArgs);
    for (const [name, code] of Object.entries(skills)) rig.writeSkill(name, code);
  });
  afterAll(async () => {
    await recordHistoriesOf(rig.runs.client, recorded);
    await rig.stop();
  });
  return { rig: () => rig, ...sessionCalls(() => rig) };
}

/** @param begun  lines that the action wrote */
async function outliveDeath({ rig: rigOf, prompt, start, answer }: Lane, point: string, begun: number): Promise<void> {
  const rig = rigOf();
  const session = `killed-${point}`;
  const starts = rig.starts();
  const first = prompt(await start(session, 'deployer', { die: point }));
  const second = prompt(await answer(session, first, { to: point }));
  expect(rig.starts()).toBe(starts + 1);
  expect(second).toMatchObject({
    step: 'end',
    completed: { step: 'ask', response: { to: point }, result: { at: point } },
  });
  const own = rig.lines().filter((line) => line.includes(`${session}/`));
  // Each attempt has the same key, so that the receiver of the action can recognize a repetition.
  expect(new Set(own.map((line) => / (\S+\/\d+\/ask)/.exec(line)?.[1])).size).toBe(1);
  expect(own.filter((line) => line.startsWith('begun'))).toHaveLength(begun);
  const { records } = await recordsOfSession(rig.runs.client, session);
  expect(records.map(({ step, turn }) => `${step} ${turn}`)).toEqual(['ask 1']);
  expect(await answer(session, second, { ok: true })).toMatchObject({ kind: 'done' });
  await rig.runs.client.workflow.getHandle(session).result();
}

describe.concurrent('a worker that is killed', () => {
  const lane = useLane({ deployer: DEPLOYER }, ['killed-middle']);

  test.sequential.each([
    ['check', 1],
    ['begin', 1],
    ['middle', 2],
    ['end', 2],
  ])(
    'at "%s" loses nothing, and does nothing twice without its key',
    { timeout: 90_000 },
    async (point, begun) => await outliveDeath(lane, point, begun),
  );
});

describe.concurrent('a killed worker', () => {
  const lane = useLane({ deployer: DEPLOYER, evil: EVIL }, ['observed']);
  const { prompt, start, answer, view, until } = lane;

  test.sequential('leaves no process behind, not even one that loops', { timeout: 300_000 }, async ({ expect }) => {
    const rig = lane.rig();
    const first = prompt(await start('orphan', 'evil'));
    const { codeHash } = await view('orphan');
    const orphans = (): string[] =>
      childrenOf(rig.stateDir, codeHash).filter((pid) => parentOf(pid) !== rig.workerPid());
    const failing = answer('orphan', first, { said: 'loop' });
    await sleep(1_000);
    await expect.poll(() => childrenOf(rig.stateDir, codeHash).length).toBeGreaterThan(0);
    process.kill(rig.workerPid()!, 'SIGKILL');
    await expect.poll(() => orphans().length).toBeGreaterThan(0);
    expect(await failing).toMatchObject({ error: 'action', message: expect.stringContaining('did not return') });
    await until('all are gone', () => orphans().length === 0);
  });

  test.sequential('has its observers told of every event once', { timeout: 300_000 }, async () => {
    const rig = lane.rig();
    const before = rig.lines().length;
    const first = prompt(await start('observed', 'deployer', { die: 'end-of-nothing' }));
    const second = prompt(await answer('observed', first, { to: 'x' }));
    process.kill(rig.workerPid()!, 'SIGKILL');
    await answer('observed', second, { ok: true });
    const told = (): string[] =>
      rig
        .lines()
        .slice(before)
        .filter((line) => line.startsWith('observed'));
    await until('all are told', () => told().length >= 4);
    await rig.runs.client.workflow.getHandle('observed').result();
    expect(told()).toEqual([
      'observed complete ask',
      'observed ask to end',
      'observed complete end',
      'observed end to __terminal__',
    ]);
  });
});

function childrenOf(stateDir: string, codeHash: string): string[] {
  return readdirSync('/proc').filter(
    (pid) =>
      /^\d+$/.test(pid) &&
      readProc(pid, 'cmdline').includes(`workers/skills/child.js\0${join(stateDir, 'skills', codeHash)}`),
  );
}

function parentOf(pid: string): number {
  return Number(/^PPid:\s+(\d+)$/m.exec(readProc(pid, 'status'))?.[1]);
}

/** Empty when the process has just ended. */
function readProc(pid: string, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}

describe.concurrent('a long session', () => {
  // As many events as a session of some dozen turns has.
  const lane = useLane(
    { counter: COUNTER },
    [],
    ['--dynamic-config-value', 'limit.historyCount.suggestContinueAsNew=400'],
  );
  const { prompt, start, answer, view, until } = lane;

  test.sequential('goes over several histories with its turns, visits and store', { timeout: 240_000 }, async () => {
    const rig = lane.rig();
    // Four histories and more, and a store that is read back whole.
    const COUNT = 600;
    let at = prompt(await start('long', 'counter'));
    const { startedAtMs } = await view('long');
    const firstRun = (await rig.runs.client.workflow.getHandle('long').describe()).runId;
    for (let n = 1; n <= COUNT; n += 1) {
      const next = prompt(await answer('long', at, { n: 1 }));
      expect(next.turn).toBe(at.turn! + 1);
      // Sent again, across histories or not, it is the same answer.
      const again = n % 50 === 0 ? await answer('long', at, { n: 1 }) : next;
      expect(again).toEqual(next);
      at = next;
    }
    expect(at.prompt).toContain(`visit ${COUNT}, total ${COUNT}, history ${COUNT}`);
    expect((await rig.runs.client.workflow.getHandle('long').describe()).runId).not.toBe(firstRun);
    await until('the list knows when it began', async () => {
      const [listed] = (await listSessions(rig.runs.client, { limit: 500 })).filter(
        ({ session }) => session === 'long',
      );
      return listed?.startedAtMs === startedAtMs;
    });
    const { flushed, flushedRef, records } = await recordsOfSession(rig.runs.client, 'long');
    expect(flushed + records.length).toBe(COUNT);
    let stored = 0;
    const history = readSessionHistory(rig, { session: 'long', ref: flushedRef! });
    for await (const records of history) stored += records.length;
    expect(stored).toBe(flushed);
    expect(await answer('long', at, { n: -1 })).toMatchObject({
      kind: 'done',
      finalOutput: { total: COUNT - 1, visits: COUNT + 1 },
    });
    const runs: string[] = [];
    for await (const { runId } of rig.runs.client.workflow.list({ query: "WorkflowId = 'long'" })) runs.push(runId);
    expect(runs.length).toBeGreaterThanOrEqual(4);
  });
});
