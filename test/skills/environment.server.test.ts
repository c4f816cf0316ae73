/**
 * The environment that a skill's code sees in durable sessions, over each transport that has them: the same as
 * elsewhere. The values go from the shell that starts a session to the code. Only one file contains them, until the
 * session ends.
 */
import { createHash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { connectRuns, type RunsConnection } from '../../client/temporal/connect.ts';
import { recordHistoriesOf } from '../rig/runs/record-histories.ts';
import { createEmbeddedAddress } from '../../client/temporal/temporal-address.ts';
import {
  CANARY,
  type CuriousScript,
  curiousScript,
  TOKEN,
  UNDECLARED,
  UNDECLARED_VALUE,
} from '../rig/skills/environment-skill.ts';
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
const DIGEST = createHash('sha256').update(CANARY).digest('hex');
const BASE = /^(PATH|HOME|USER|LOGNAME|LANG|LC_[A-Z]+|TZ|TMPDIR|NODE_EXTRA_CA_CERTS)$/;

let made: CuriousScript;
let stateDir: string;
let around: Surroundings;
let runs: RunsConnection;

beforeAll(async () => {
  made = await curiousScript();
  stateDir = join(made.dir, 'state');
  const given = Object.entries(process.env).filter((one): one is [string, string] => one[1] !== undefined);
  const env = {
    ...Object.fromEntries(given),
    VOIDBOX_STATE_DIR: stateDir,
    VOIDBOX_BIN: BIN,
    NO_COLOR: '1',
    [TOKEN]: CANARY,
    [UNDECLARED]: UNDECLARED_VALUE,
  };
  around = { cwd: made.dir, env, scriptOf: () => made.script };
  await output([BIN, 'up', '--skills', made.entry], around);
  const { address } = JSON.parse(readFileSync(join(stateDir, 'stack.json'), 'utf8')) as { readonly address: string };
  runs = await connectRuns(createEmbeddedAddress(address));
}, 120_000);

afterAll(async () => {
  if (runs !== undefined) await recordHistoriesOf(runs.client, ['variables']);
  await runs?.close();
  await output([BIN, 'down'], around);
  made[Symbol.dispose]();
});

const DRIVERS: readonly [string, () => Driver][] = [
  ['voidbox session', () => voidboxSession(around, BIN)],
  ['command line, --durable', () => durableCli(around)],
  ['MCP over stdio, --durable', () => mcpStdio(around, '--durable')],
  ['MCP over HTTP, --durable', () => mcpHttp(around, '--durable')],
];

/** Files of the state folder that hold the value, the server's database among them. */
function holders(): readonly string[] {
  const files = readdirSync(stateDir, { recursive: true, encoding: 'utf8' }).filter(
    (name) => statSync(join(stateDir, name), { throwIfNoEntry: false })?.isFile() === true,
  );
  expect(files).toContain('temporal.db');
  return files.filter((name) => readFileSync(join(stateDir, name)).includes(CANARY));
}

/** Command lines of all processes, and the environments of those that run code of skills. */
function processTexts(): string {
  const texts = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
        return line.includes('workers/skills/child.js') && line.includes(made.dir)
          ? [line, readFileSync(`/proc/${pid}/environ`, 'utf8')]
          : [line];
      } catch {
        return [];
      }
    });
  return texts.join('\n');
}

async function historyOf(session: string): Promise<string> {
  const history = historyToJSON(await runs.client.workflow.getHandle(session).fetchHistory());
  // Payloads are Base64 in there.
  return (
    history +
    [...history.matchAll(/"data": "([^"]*)"/g)].map(([, data]) => Buffer.from(data!, 'base64').toString()).join('\n')
  );
}

async function sessions(): Promise<readonly string[]> {
  const { sessions: listed } = JSON.parse(await output([BIN, 'session', 'list', '--json'], around)) as {
    readonly sessions: readonly { readonly session: string }[];
  };
  return listed.map(({ session }) => session);
}

describe.each(DRIVERS)('%s', (_name, driver) => {
  test('shows the declared variables and those that every program needs, and keeps them to itself', async () => {
    const before = await sessions();
    const going = await driver().start({ skill: 'curious' });
    const session = (await sessions()).find((one) => !before.includes(one))!;
    expect(holders()).toEqual([join('sessions', session, 'variables.json')]);
    const file = join(stateDir, 'sessions', session, 'variables.json');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(join(stateDir, 'sessions', session)).mode & 0o077).toBe(0);
    const shown: Shown[] = [going.first];
    for (let now = going.first; now.kind === 'prompt';) {
      now = await going.advance(now.step!, now.step === 'look' ? { fails: true } : {}, now.turn);
      shown.push(now);
      const texts = processTexts();
      expect(texts).toContain('child.js');
      expect(texts).not.toContain(CANARY);
    }
    const { look, inner, kept } = shown.at(-1)!.finalOutput as {
      look: { seen: string[]; loaded: string[] };
      inner: unknown;
      kept: string;
    };
    expect(look.seen.filter((name) => !BASE.test(name))).toEqual([TOKEN]);
    expect(look.loaded.filter((name) => !BASE.test(name))).toEqual([]);
    expect(look).toMatchObject({ digest: DIGEST, told: '[redacted]', hidden: 'nowhere' });
    expect({ inner, kept }).toEqual({ inner: { inner: '[redacted]', digest: DIGEST }, kept: '[redacted]' });
    expect(JSON.stringify(shown)).not.toContain(CANARY);

    // The answer arrives a moment before the session's end.
    await expect.poll(() => existsSync(file), { timeout: 20_000 }).toBe(false);
    expect(holders()).toEqual([]);
    for (const one of [session, `${session}~2`]) {
      const history = await historyOf(one);
      expect(history).toContain('[redacted]');
      expect(history).not.toContain(CANARY);
      expect(history).not.toContain(UNDECLARED_VALUE);
    }
    const log = readFileSync(join(stateDir, 'logs/worker.log'), 'utf8');
    for (const word of ['prompted', 'acted', 'observed']) expect(log).toContain(`${word} [redacted]`);
  });
});

function failing(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): { readonly code: number; readonly stderr: string } {
  try {
    execFileSync(process.execPath, [...args], { cwd: made.dir, env, stdio: 'pipe', timeout: 110_000 });
  } catch (error) {
    const { status, stderr } = error as { readonly status: number; readonly stderr: Buffer };
    return { code: status, stderr: stderr.toString() };
  }
  throw new Error(`${args.join(' ')} did not fail`);
}

describe('a session whose variable is not set', () => {
  test('is not opened, and says which, over each transport', () => {
    const { [TOKEN]: _left, ...without } = around.env;
    const named = failing([BIN, 'session', 'start', 'curious', '--id', 'unset', '--json'], without);
    expect(named.code).toBe(3);
    expect(JSON.parse(named.stderr.trim().split('\n').at(-1)!)).toMatchObject({
      error: {
        code: 'skill/variable-missing',
        message: `skill "curious" needs the variable ${TOKEN}, which is not set`,
      },
    });
    for (const args of [
      ['start', '--durable'],
      ['mcp', '--durable'],
    ]) {
      const { code, stderr } = failing([made.script, ...args], without);
      expect({ code, stderr }).toEqual({
        code: 1,
        stderr: `error: skill "curious" needs the variable ${TOKEN}, which is not set. Set it where this is started.\n`,
      });
    }
    expect(readdirSync(join(stateDir, 'sessions/unset')).filter((name) => name.includes('variables'))).toEqual([]);
  });

  test('is not opened for a client that hands nothing over, and keeps no client waiting for long', async () => {
    const handle = await runs.client.workflow.start('voidboxSession', {
      workflowId: 'raw',
      taskQueue: 'voidbox-sessions',
      args: [{ skill: 'curious' }],
    });
    await expect(handle.result()).rejects.toMatchObject({
      cause: { type: 'skill/variable-missing', message: expect.stringContaining(TOKEN) as string },
    });
  });
});

test('answers from a shell without the variable find what was handed over, also after the worker has died', async () => {
  const { [TOKEN]: _left, ...without } = around.env;
  await output([BIN, 'session', 'start', 'curious', '--id', 'variables'], around);
  const { workerPid } = JSON.parse(readFileSync(join(stateDir, 'stack.json'), 'utf8')) as {
    readonly workerPid: number;
  };
  process.kill(workerPid, 'SIGKILL');
  const answered = await output([BIN, 'session', 'advance', 'variables', '--output', '{"fails":false}', '--json'], {
    cwd: made.dir,
    env: without,
  });
  expect(JSON.parse(answered)).toMatchObject({
    result: { step: 'call/whisper', prompt: expect.stringContaining(`inner ${DIGEST}`) as string },
  });
  for (const step of ['whisper', 'end'])
    void (
      await output([BIN, 'session', 'advance', 'variables', '--output', '{}', '--json'], {
        cwd: made.dir,
        env: without,
      }),
      step
    );
  await expect
    .poll(() => existsSync(join(stateDir, 'sessions/variables/variables.json')), { timeout: 20_000 })
    .toBe(false);
});

test('a session that is started again under the id of a terminated session does not get its values', async () => {
  await output([BIN, 'session', 'start', 'curious', '--id', 'again'], around);
  await runs.client.workflow.getHandle('again').terminate();
  const file = join(stateDir, 'sessions/again/variables.json');
  expect(readFileSync(file, 'utf8')).toContain(CANARY);
  // A client of the server starts it, without handing values over.
  const handle = await runs.client.workflow.start('voidboxSession', {
    workflowId: 'again',
    taskQueue: 'voidbox-sessions',
    args: [{ skill: 'curious' }],
  });
  await expect(handle.result()).rejects.toMatchObject({
    cause: { type: 'skill/variable-missing', message: expect.stringContaining(TOKEN) as string },
  });
  expect(existsSync(file)).toBe(false);
});

test('a session that is cancelled drops its values at once, one that is terminated has them dropped', async () => {
  for (const id of ['cancelled', 'terminated']) await output([BIN, 'session', 'start', 'curious', '--id', id], around);
  await output([BIN, 'session', 'cancel', 'cancelled'], around);
  const file = (session: string): string => join(stateDir, 'sessions', session, 'variables.json');
  expect([existsSync(file('cancelled')), existsSync(file('terminated'))]).toEqual([false, true]);
  await runs.client.workflow.getHandle('terminated').terminate();
  const earlier = new Date(Date.now() - 120_000);
  utimesSync(file('terminated'), earlier, earlier);
  for (const end = Date.now() + 60_000; existsSync(file('terminated')) && Date.now() < end;) await sleep(500);
  expect(existsSync(file('terminated'))).toBe(false);
  expect(holders()).toEqual([]);
});
