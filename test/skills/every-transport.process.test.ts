/** Each example to its end through each transport that needs no server: the same answers, the same final output. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { mockModel, runComposite, runSkill } from 'voidbox/skill-kit/test';
import { releaseApproval } from '../../examples/skills/release-approval.ts';
import { advanceSession, createSession, startSession, tickSession } from '../../skill-kit/drive/drive.ts';
import {
  type Driven,
  driveExample,
  EXAMPLE_RUNS,
  type ExampleRun,
  exampleScripts,
  type ExampleScripts,
} from '../rig/skills/example-skills.ts';
import {
  type Driver,
  mcpHttp,
  mcpStdio,
  sessionCli,
  statelessCli,
  type Surroundings,
} from '../rig/skills/skill-drivers.ts';

let scripts: ExampleScripts;
beforeAll(async () => {
  scripts = await exampleScripts();
});
afterAll(() => scripts?.[Symbol.dispose]());

const around = (): Surroundings => ({
  cwd: scripts.dir,
  env: { PATH: process.env['PATH'] ?? '' },
  scriptOf: (name) => scripts.scriptOf(name),
});

/** By the test kit, as authors try their skills. */
async function inProcess({ definition, subskill, prepare }: ExampleRun): Promise<Driven> {
  const { params, answers } = prepare();
  const asked: string[] = [];
  const mock = mockModel(answers);
  const model = {
    respond(step: string, prompt: string): unknown {
      asked.push(step);
      return mock.respond(step, prompt);
    },
  };
  const options = { model, ...(params === undefined ? {} : { params }) };
  const isComposite = definition.subskills !== undefined;
  const finalOutput = isComposite
    ? (await runComposite(definition, { ...options, ...(subskill === undefined ? {} : { directSubskill: subskill }) }))
        .output
    : (await runSkill(definition, options)).response;
  return { asked, finalOutput };
}

const DRIVERS: readonly [string, (surroundings: Surroundings) => Driver][] = [
  ['command line, stateless', statelessCli],
  ['command line, session file', (surroundings) => sessionCli(surroundings, join(scripts.dir, 'sessions'))],
  ['MCP over stdio', (surroundings) => mcpStdio(surroundings)],
  ['MCP over HTTP', (surroundings) => mcpHttp(surroundings)],
];

describe.each(EXAMPLE_RUNS.map((run) => [run.what, run] as const))('%s', (_what, run) => {
  test('in process', async () => {
    expect(await inProcess(run)).toEqual({ asked: run.asked, finalOutput: run.finalOutput });
  });

  test.each(DRIVERS)('%s', async (_name, driver) => {
    expect(await driveExample(driver(around()), run)).toEqual({ asked: run.asked, finalOutput: run.finalOutput });
  });
});

test('release-approval without an answer expires at its deadline and not a millisecond before', async () => {
  let nowMs = 1_000_000;
  const session = createSession(releaseApproval(60_000), { params: { version: '2.0.0' }, now: () => nowMs });
  await startSession(session);
  const asked = await advanceSession(session, { step: 'notes', output: { notes: 'Faster.', breaking: false } });
  expect(asked).toMatchObject({
    kind: 'prompt',
    step: 'approve',
    human: { dueMs: 1_060_000, assignee: 'release manager' },
  });
  nowMs += 59_999;
  expect(await tickSession(session)).toMatchObject({ kind: 'prompt', step: 'approve' });
  nowMs += 1;
  expect(await tickSession(session)).toMatchObject({
    kind: 'done',
    finalOutput: { outcome: 'expired', version: '2.0.0', by: null },
  });
});
