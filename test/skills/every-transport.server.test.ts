/**
 * Each example to its end as a durable session, through each transport that has them; and an approval without an
 * answer.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { driveExample, EXAMPLE_RUNS, exampleScripts, type ExampleScripts } from '../rig/skills/example-skills.ts';
import {
  type Driver,
  durableCli,
  mcpHttp,
  mcpStdio,
  output,
  type Shown,
  type Surroundings,
  voidboxSession,
} from '../rig/skills/skill-drivers.ts';

const BIN = join(findPackageRoot(), 'bin/voidbox.js');
/** Long enough to be asked before it is over, on a loaded machine. */
const DEADLINE_MS = 4_000;

let scripts: ExampleScripts;
let around: Surroundings;

beforeAll(async () => {
  scripts = await exampleScripts();
  writeSoonExpiring();
  const given = Object.entries(process.env).filter((one): one is [string, string] => one[1] !== undefined);
  const env = { ...Object.fromEntries(given), VOIDBOX_STATE_DIR: join(scripts.dir, 'state'), NO_COLOR: '1' };
  around = { cwd: scripts.dir, env, scriptOf: (name) => scripts.scriptOf(name) };
  // One list of entries for all tests, so that the stack is started once.
  const entries = [...new Set(EXAMPLE_RUNS.map(({ definition }) => definition.name)), 'soon'].map((name) =>
    join(scripts.skillsDir, name, 'skill.ts'),
  );
  await output([BIN, 'up', '--skills', ...entries], around);
}, 120_000);

afterAll(async () => {
  await output([BIN, 'down'], around);
  scripts[Symbol.dispose]();
});

/** The example with a deadline that a test can wait for. */
function writeSoonExpiring(): void {
  mkdirSync(join(scripts.skillsDir, 'soon'), { recursive: true });
  const example = JSON.stringify(join(findPackageRoot(), 'examples/skills/release-approval.ts'));
  const code = `import { releaseApproval } from ${example};\nexport default { ...releaseApproval(${DEADLINE_MS}), name: 'soon' };\n`;
  writeFileSync(join(scripts.skillsDir, 'soon/skill.ts'), code);
}

const DRIVERS: readonly [string, () => Driver][] = [
  ['voidbox session', () => voidboxSession(around, BIN)],
  ['command line, --durable', () => durableCli(around)],
  ['MCP over stdio, --durable', () => mcpStdio(around, '--durable')],
  ['MCP over HTTP, --durable', () => mcpHttp(around, '--durable')],
];

describe.each(EXAMPLE_RUNS.map((run) => [run.what, run] as const))('%s', (_what, run) => {
  test.each(DRIVERS)('%s', async (_name, driver) => {
    expect(await driveExample(driver(), run)).toEqual({ asked: run.asked, finalOutput: run.finalOutput });
  });
});

test('release-approval without an answer expires by a timer of the server', async () => {
  const going = await voidboxSession(around, BIN).start({ skill: 'soon', params: { version: '2.0.0' } });
  const asking = await going.advance('notes', { notes: 'Faster.', breaking: false }, going.first.turn);
  expect(asking).toMatchObject({
    kind: 'prompt',
    step: 'approve',
    human: { assignee: 'release manager', dueMs: expect.any(Number) as number },
  });
  let now: Shown = asking;
  for (
    const endMs = Date.now() + DEADLINE_MS + 30_000;
    now.kind !== 'done' && Date.now() < endMs;
    now = await going.look!()
  )
    await sleep(500);
  expect(now).toMatchObject({ kind: 'done', finalOutput: { outcome: 'expired', version: '2.0.0', by: null } });
  // A late answer is refused.
  await expect(going.advance('approve', { approved: true, by: 'Ada' }, asking.turn)).rejects.toThrow(/"error":"order"/);
});
