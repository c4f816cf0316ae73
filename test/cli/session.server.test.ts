/** `voidbox session` as it is typed, on an embedded stack of its own. */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findPackageRoot } from '../../setup/package-root.ts';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { GREETER } from '../rig/skills/session-skills.ts';

const BIN = join(import.meta.dirname, '..', '..', 'bin', 'voidbox.js');
let dir: string;

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-session-cli-'));
  mkdirSync(join(dir, 'skills', 'greeter'), { recursive: true });
  const head = `import { skill, terminal, z } from 'voidbox/skill-kit';\n`;
  writeFileSync(join(dir, 'skills', 'greeter', 'skill.ts'), head + GREETER);
});

afterAll(async () => {
  await voidbox('down');
  rmSync(dir, { recursive: true, force: true });
});

interface Typed {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

let typedBehindNpx = false;

const voidbox = (...args: string[]): Promise<Typed> => voidboxOf('state', ...args);

/** Runs a command with the state folder of this name. */
function voidboxOf(state: string, ...args: string[]): Promise<Typed> {
  return runVoidbox({ VOIDBOX_STATE_DIR: join(dir, state) }, args);
}

function runVoidbox(variables: Readonly<Record<string, string>>, args: readonly string[]): Promise<Typed> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [BIN, ...args], {
      cwd: dir,
      // Advice names the program as the user types it: without npx, however the tests were started.
      env: {
        ...process.env,
        npm_command: typedBehindNpx ? 'exec' : '',
        NO_COLOR: '1',
        ...variables,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 110_000,
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    child.once('error', reject);
    child.once('close', (code) => resolve({ code: code ?? -1, stdout, stderr }));
  });
}

const json = ({ stdout }: Typed): Record<string, unknown> => JSON.parse(stdout) as Record<string, unknown>;

test('without skills it says what to type', async () => {
  const typed = await voidbox('session', 'list');
  expect(typed.code).toBe(3);
  expect(typed.stderr).toContain('voidbox up --skills DIR');
  expect((await voidbox('session')).code).toBe(2);
  expect((await voidbox('session', 'advnce')).stderr).toContain('Did you mean advance?');
  expect((await voidbox('session', '--help')).stdout).toContain('session advance SESSION');
});

test(
  'a session is started, answered, looked at, and outlives its worker and its stack',
  { timeout: 240_000 },
  async () => {
    const started = await voidbox(
      'session',
      'start',
      'greeter',
      '--skills',
      'skills',
      '--params',
      '{"place":"Ulm"}',
      '--id',
      'first',
      '--json',
    );
    expect(started).toMatchObject({ code: 0 });
    expect(json(started)).toMatchObject({ session: 'first', result: { kind: 'prompt', step: 'ask', turn: 1 } });

    const misfit = await voidbox('session', 'advance', 'first', '--output', '{"name":"A"}', '--json');
    expect(misfit.code).toBe(2);
    expect(json(misfit)['result']).toMatchObject({ kind: 'error', error: 'validation', retry: true });
    expect((await voidbox('session', 'advance', 'first', '--output', 'Ada')).stderr).toContain('--output is not JSON');

    process.kill(
      (JSON.parse(readFileSync(join(dir, 'state', 'stack.json'), 'utf8')) as { workerPid: number }).workerPid,
      'SIGKILL',
    );
    const text = await voidbox('session', 'advance', 'first', '--output', '{"name":"Ada"}');
    expect(text).toMatchObject({ code: 0 });
    expect(text.stdout).toContain('Is it Ada?');
    expect(text.stdout).toContain('Next: voidbox session advance first --step confirm --turn 2 --output JSON');

    expect((await voidbox('down')).code).toBe(0);
    const status = await voidbox('session', 'status', 'first', '--json');
    expect(json(status)).toMatchObject({
      skill: 'greeter',
      status: 'open',
      visits: { ask: 1 },
      current: { step: 'confirm' },
    });
    typedBehindNpx = true;
    // Its folder has no package for npx, so npx needs the path.
    expect((await voidbox('session', 'status', 'first')).stdout).toContain(
      `Next: npx ${findPackageRoot()} session advance first --step confirm --turn 2 --output JSON`,
    );
    typedBehindNpx = false;
    const late = await voidbox(
      'session',
      'advance',
      'first',
      '--step',
      'ask',
      '--turn',
      '1',
      '--output',
      '{"name":"Bob"}',
      '--json',
    );
    expect(late.code).toBe(2);
    expect(json(late)['result']).toMatchObject({ error: 'order', retry: false });

    const done = await voidbox('session', 'advance', 'first', '--output', '{"yes":true}');
    expect(done.stdout).toContain('Hello Ada');
    const history = await voidbox('session', 'history', 'first', '--json');
    expect(
      history.stdout
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { step: string }).step),
    ).toEqual(['ask', 'confirm', 'end']);

    await voidbox('session', 'start', 'greeter', '--params', '{"place":"Ulm"}', '--id', 'second');
    const [hash] = readdirSync(join(dir, 'state', 'skills'));
    const tenDaysAgo = new Date(Date.now() - 10 * 86_400_000);
    const age = (path: string): void => {
      for (const name of readdirSync(path)) utimesSync(join(path, name), tenDaysAgo, tenDaysAgo);
      utimesSync(path, tenDaysAgo, tenDaysAgo);
    };
    age(join(dir, 'state', 'skills', hash!));
    expect(json(await voidbox('prune', '--json'))).toMatchObject({ skills: [] });
    expect(json(await voidbox('session', 'cancel', 'second', '--json'))).toEqual({ session: 'second', wasOpen: true });
    age(join(dir, 'state', 'skills', hash!));
    expect(json(await voidbox('prune', '--json'))).toMatchObject({ skills: [hash] });
    expect((await voidbox('session', 'start', 'greeter', '--params', '{"place":"Ulm"}', '--id', 'third')).code).toBe(0);
    await voidbox('session', 'cancel', 'third');
    const listed = json(await voidbox('session', 'list', '--json')) as unknown as {
      sessions: { session: string; state: string }[];
    };
    expect(listed.sessions.map(({ session, state }) => `${session} ${state}`)).toEqual([
      'third cancelled',
      'second cancelled',
      'first done',
    ]);

    expect((await voidbox('session', 'start', 'greeter', '--params', '{"place":7}', '--id', 'refused')).code).toBe(2);
    const refused = await voidbox('session', 'status', 'refused');
    expect(refused.stdout).toMatch(/^refused: failed\n.*place/s);

    const mistyped = await voidbox('session', 'start', 'greeter', '--skills', 'skils');
    expect(mistyped).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--skills: `skils` does not exist'),
    });
    mkdirSync(join(dir, 'empty'));
    expect((await voidbox('up', '--skills', 'skills', 'empty')).stderr).toContain(
      'there is no step machine at `empty`',
    );

    for (const [args, code, reason] of [
      [['nothing'], 'skill/unknown', 'skill "nothing" is not loaded; loaded: greeter 1.0.0'],
      [
        ['greeter', '--skill-version', '9.0.0'],
        'skill/unknown',
        'skill "greeter" in version 9.0.0 is not loaded; loaded: greeter 1.0.0',
      ],
      [['greeter', '--code', '0123456789ab'], 'skill/unknown', 'skill "greeter" with code 0123456789ab is not loaded'],
      [['greeter', '--subskill', 'none'], 'skill/params', 'has no sub-skill "none"'],
      [['greeter', '--params', '{"place":7}'], 'skill/params', 'place'],
    ] as const) {
      const refused = await voidbox('session', 'start', ...args, '--json');
      expect(refused.code).toBe(2);
      expect(JSON.parse(refused.stderr.trim().split('\n').at(-1)!)).toMatchObject({
        error: { code, message: expect.stringContaining(reason) as string },
      });
    }
    expect((await voidbox('session', 'status', 'nobody')).stderr).toContain('there is no session nobody');
  },
);

test('a session that waits for a person is in status and list, with the deadline', { timeout: 240_000 }, async () => {
  mkdirSync(join(dir, 'skills', 'approval'), { recursive: true });
  writeFileSync(
    join(dir, 'skills', 'approval', 'skill.ts'),
    `import { skill, terminal, z } from 'voidbox/skill-kit';
const inner = skill({ name: 'inner', entry: 'sign' })
  .step('sign', { human: {}, prompt: 'Sign?', response: z.object({}), next: terminal })
  .build();
export default skill({ name: 'approval', entry: 'notes' })
  .subskill('inner', inner)
  .step('notes', { prompt: 'Notes?', response: z.object({}), next: 'approve' })
  .step('approve', {
    human: { assignee: 'release manager', deadlineMs: 3_600_000, onExpiry: 'end' },
    prompt: 'Approve?',
    response: z.object({}),
    next: 'sign',
  })
  .step('sign', { call: 'inner', next: 'end' })
  .step('end', { prompt: 'Done?', response: z.object({}), next: terminal })
  .build();
`,
  );
  expect((await voidbox('session', 'start', 'approval', '--id', 'agent', '--skills', 'skills')).code).toBe(0);
  expect((await voidbox('session', 'start', 'approval', '--id', 'waits')).code).toBe(0);
  const asked = await voidbox('session', 'advance', 'waits', '--output', '{}');
  expect(asked.stdout).toMatch(/^This step waits for release manager until \d{4}-\S+Z$/m);

  const list = async (...args: string[]): Promise<Typed> => await voidbox('session', 'list', '--waiting', ...args);
  const { sessions, unasked } = json(await list('--json')) as unknown as {
    sessions: { startedAt: string; waiting: { dueAt: string }[] }[];
    unasked: unknown[];
  };
  expect(unasked).toEqual([]);
  const dueAt = expect.stringMatching(/^\d{4}-.*Z$/) as string;
  const step = { step: 'approve', turn: 2, assignee: 'release manager', dueAt };
  expect(sessions).toEqual([
    { session: 'waits', skill: 'approval', state: 'open', startedAt: dueAt, endedAt: null, waiting: [step] },
  ]);
  const due = Date.parse(sessions[0]!.waiting[0]!.dueAt);
  expect(due - Date.parse(sessions[0]!.startedAt)).toBeGreaterThanOrEqual(3_600_000);

  expect((await list()).stdout).toMatch(
    /^SESSION +SKILL +STEP +WAITS FOR +UNTIL +STARTED\nwaits +approval +approve +release manager +\S+Z +\d+s ago\n$/,
  );
  expect((await voidbox('session', 'status', 'waits')).stdout).toMatch(
    /^ {2}approve {2}waits for release manager until \S+Z, turn 2$/m,
  );
  expect(json(await voidbox('session', 'status', 'waits', '--json'))).toMatchObject({
    startedAt: dueAt,
    open: [{ step: 'approve', turn: 2, phase: 'asking', human: { assignee: 'release manager', dueMs: due, dueAt } }],
  });

  // A called sub-skill asks in a session of its own. It counts as its caller, under the address that gets the answer.
  expect((await voidbox('session', 'advance', 'waits', '--output', '{}')).code).toBe(0);
  expect((await list()).stdout).toMatch(/\nwaits +approval +sign\/sign +anyone +no deadline +\d+s ago\n$/);
  expect((await voidbox('session', 'advance', 'waits', '--output', '{}')).code).toBe(0);
  expect(await list()).toEqual({ code: 0, stdout: 'No session waits for a person\n', stderr: '' });

  const contradictory = await list('--state', 'done');
  expect(contradictory).toMatchObject({ code: 2, stderr: expect.stringContaining('--waiting and --state done') });
  for (const id of ['waits', 'agent']) await voidbox('session', 'cancel', id);
});

test.concurrent(
  'a client whose server ends reports it, and the answer can be given again',
  { timeout: 240_000 },
  async () => {
    mkdirSync(join(dir, 'skills', 'slow'));
    // The action continues when the file exists, not after a time, because the duration of the commands depends on the
    // machine.
    const go = join(dir, 'go');
    writeFileSync(
      join(dir, 'skills', 'slow', 'skill.ts'),
      `import { existsSync } from 'node:fs';
import { skill, terminal, z } from 'voidbox/skill-kit';
const action = async () => {
  for (const end = Date.now() + 180_000; Date.now() < end && !existsSync(${JSON.stringify(go)});) await new Promise((resolve) => setTimeout(resolve, 50));
};
export default skill({ name: 'slow', entry: 'ask' })
  .step('ask', { prompt: 'Go?', response: z.object({}), action, next: terminal })
  .build();
`,
    );
    expect((await voidbox('session', 'start', 'slow', '--id', 'slow')).code).toBe(0);
    const waiting = voidbox('session', 'advance', 'slow', '--step', 'ask', '--turn', '1', '--output', '{}');
    for (const end = Date.now() + 30_000; !(await voidbox('session', 'status', 'slow')).stdout.includes('acting');) {
      if (Date.now() > end) throw new Error('the answer did not come');
    }
    expect((await voidbox('down')).code).toBe(0);
    expect(await waiting).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/the connection to the Temporal server was lost.*--turn/s),
    });
    writeFileSync(go, '');
    const again = await voidbox(
      'session',
      'advance',
      'slow',
      '--step',
      'ask',
      '--turn',
      '1',
      '--output',
      '{}',
      '--json',
    );
    expect(json(again)).toMatchObject({ result: { kind: 'done' } });
  },
);

// Runs next to the previous test, with a stack of its own, because both mostly wait.
test.concurrent(
  'the error names an embedded server that does not answer, and the remedy',
  { timeout: 120_000 },
  async () => {
    expect((await voidboxOf('silent', 'up', '--skills', 'skills')).code).toBe(0);
    const { serverPid } = JSON.parse(readFileSync(join(dir, 'silent', 'stack.json'), 'utf8')) as { serverPid: number };
    process.kill(serverPid, 'SIGSTOP');
    try {
      const typed = await voidboxOf('silent', 'session', 'list');
      expect(typed.code).toBe(3);
      expect(typed.stderr).toContain('does not answer');
      expect(typed.stderr).toContain('voidbox ps');
      expect(typed.stderr).not.toContain('TEMPORAL_ADDRESS');
    } finally {
      process.kill(serverPid, 'SIGCONT');
      await voidboxOf('silent', 'down');
    }
  },
);

test('the commands work on the sessions of another machine, with the same output', { timeout: 120_000 }, async () => {
  const far = (...args: string[]): Promise<Typed> =>
    runVoidbox(
      { VOIDBOX_STATE_DIR: join(dir, 'elsewhere'), VOIDBOX_SERVER: `unix:${join(dir, 'state', 'api.sock')}` },
      ['session', ...args],
    );
  await voidbox('up', '--skills', 'skills');
  const started = await far('start', 'greeter', '--params', '{"place":"Ulm"}', '--id', 'far', '--json');
  expect(json(started)).toMatchObject({ session: 'far', result: { kind: 'prompt', step: 'ask', turn: 1 } });
  expect((await far('advance', 'far', '--output', '{"name":"Ada"}')).stdout).toContain('Is it Ada?');
  for (const args of [
    ['status', 'far'],
    ['history', 'far', '--json'],
    ['list', '--waiting', '--json'],
  ])
    expect(await far(...args), args.join(' ')).toEqual(await voidbox('session', ...args));
  expect(json(await far('cancel', 'far', '--json'))).toEqual({ session: 'far', wasOpen: true });
  expect(json(await voidbox('session', 'cancel', 'far', '--json'))).toEqual({ session: 'far', wasOpen: false });
});
