/**
 * The environment that a skill's code sees over each transport that needs no server: it is the same, and its values
 * stay in the code.
 */
import { createHash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { mockModel, runSkill } from 'voidbox/skill-kit/test';
import type { SkillDefinition } from '../../domain/step-machine/definition.ts';
import { loadSkill } from '../../skill-kit/bundle/load-skill.ts';
import { listRegularFilesBelow } from '../../setup/cache/files-below.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
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
  mcpHttp,
  mcpStdio,
  sessionCli,
  type Shown,
  type Surroundings,
} from '../rig/skills/skill-drivers.ts';

const BIN = join(findPackageRoot(), 'bin/voidbox.js');
const DIGEST = createHash('sha256').update(CANARY).digest('hex');
const BASE = /^(PATH|HOME|USER|LOGNAME|LANG|LC_[A-Z]+|TZ|TMPDIR|NODE_EXTRA_CA_CERTS)$/;

let made: CuriousScript;
let built: string;

beforeAll(async () => {
  made = await curiousScript();
  execFileSync(process.execPath, [BIN, 'skill', 'build', 'curious', '-o', 'built/curious'], {
    cwd: made.dir,
    stdio: 'pipe',
  });
  built = join(made.dir, 'built/curious/bin/curious.cjs');
});
afterAll(() => made?.[Symbol.dispose]());

const environment = (): Record<string, string> => ({
  PATH: process.env['PATH'] ?? '',
  HOME: made.dir,
  LANG: 'C.UTF-8',
  NODE_OPTIONS: '--no-warnings',
  [TOKEN]: CANARY,
  [UNDECLARED]: UNDECLARED_VALUE,
});
const around = (script: string): Surroundings => ({ cwd: made.dir, env: environment(), scriptOf: () => script });

/** Drives the skill to its end. Returns everything that was shown, as text. */
async function driven(driver: Driver): Promise<{ readonly finalOutput: unknown; readonly text: string }> {
  const going = await driver.start({ skill: 'curious' });
  const shown: Shown[] = [going.first];
  for (let now = going.first; now.kind === 'prompt';) {
    now = await going.advance(now.step!, now.step === 'look' ? { fails: false } : {}, now.turn);
    shown.push(now);
  }
  return { finalOutput: shown.at(-1)!.finalOutput, text: JSON.stringify(shown) };
}

const DRIVERS: readonly [string, (surroundings: Surroundings) => Driver][] = [
  ['command line, session file', (surroundings) => sessionCli(surroundings, join(made.dir, 'sessions'))],
  ['MCP over stdio', (surroundings) => mcpStdio(surroundings)],
  ['MCP over HTTP', (surroundings) => mcpHttp(surroundings)],
];

interface Look {
  readonly look: {
    readonly loaded: readonly string[];
    readonly seen: readonly string[];
    readonly digest: string;
    readonly told: string;
    readonly hidden: string;
  };
  readonly inner: unknown;
  readonly kept: string;
}

function expectSameness(finalOutput: unknown, isProgramItself: boolean): void {
  const { look, inner, kept } = finalOutput as Look;
  expect(look.seen.filter((name) => !BASE.test(name))).toEqual([TOKEN]);
  expect(look.seen).toContain('PATH');
  // A script that calls `main` is the program itself, so it starts with the whole environment.
  expect(isProgramItself ? [] : look.loaded.filter((name) => !BASE.test(name))).toEqual([]);
  expect(look).toMatchObject({ digest: DIGEST, told: '[redacted]', hidden: 'nowhere' });
  expect({ inner, kept }).toEqual({ inner: { inner: '[redacted]', digest: DIGEST }, kept: '[redacted]' });
}

describe.each(DRIVERS)('%s', (_name, driver) => {
  test.each(['built', 'script'])(
    'shows a %s the declared variables and those that every program needs',
    async (kind) => {
      const { finalOutput, text } = await driven(driver(around(kind === 'built' ? built : made.script)));
      expectSameness(finalOutput, kind === 'script');
      expect(text).not.toContain(CANARY);
      expect(text).not.toContain(UNDECLARED_VALUE);
    },
  );
});

test('the test kit shows the same', async () => {
  process.env[UNDECLARED] = UNDECLARED_VALUE;
  try {
    const { definition } = await loadSkill(made.entry);
    let around: string | undefined;
    const answers = { look: { fails: true }, 'call/whisper': {}, end: () => ((around = process.env[UNDECLARED]), {}) };
    const { response } = await runSkill(definition as SkillDefinition, {
      model: mockModel(answers),
      env: { [TOKEN]: CANARY },
    });
    expectSameness(response, false);
    // The process of the test contains the model.
    expect(around).toBe(UNDECLARED_VALUE);
    expect(process.env[TOKEN]).toBeUndefined();
    await expect(runSkill(definition as SkillDefinition, { model: mockModel(answers) })).rejects.toThrow(
      `skill "curious" needs the variable ${TOKEN}, which is not set. Pass \`env\`: { ${TOKEN}: '…' }.`,
    );
  } finally {
    delete process.env[UNDECLARED];
  }
});

interface Called {
  readonly code: number;
  readonly text: string;
}

function call(args: readonly string[], env: Readonly<Record<string, string>>): Called {
  try {
    return {
      code: 0,
      text: execFileSync('/bin/sh', ['-c', '"$@" 2>&1', 'sh', ...args], { cwd: made.dir, env, encoding: 'utf8' }),
    };
  } catch (error) {
    const { status, stdout } = error as { readonly status: number; readonly stdout: string };
    return { code: status, text: stdout };
  }
}

test.each(['skill run', 'built', 'script'])(
  'what is printed, thrown and kept by calls of a %s holds no value',
  (how) => {
    const program = how === 'skill run' ? [BIN, 'skill', 'run', 'curious'] : [how === 'built' ? built : made.script];
    const started = call([process.execPath, ...program, 'start'], environment());
    expect(started).toMatchObject({ code: 0 });
    expect(started.text).toContain('prompted [redacted]');
    expect(started.text).toContain(`It is [redacted] of ${DIGEST}`);
    const failing = call(
      [process.execPath, ...program, 'advance', '--step', 'look', '--output', '{"fails":true}'],
      environment(),
    );
    expect(failing.text).toContain('acted [redacted]');
    for (const { text } of [started, failing]) {
      expect(text).not.toContain(CANARY);
      expect(text).not.toContain(UNDECLARED_VALUE);
    }
  },
);

test.each([
  ['start', ['start']],
  ['start --session new', ['start', '--session', 'new']],
  ['advance', ['advance', '--step', 'look', '--output', '{"fails":false}']],
  ['mcp', ['mcp']],
  ['mcp over HTTP', ['mcp', '--http', '0']],
])('%s says which variable is not set, and does nothing', (_how, args) => {
  const { [TOKEN]: _left, ...without } = environment();
  for (const script of [built, made.script]) {
    const { code, text } = call([process.execPath, script, ...args], without);
    expect(code).toBe(1);
    expect(text).toBe(
      `error: skill "curious" needs the variable ${TOKEN}, which is not set. Set it where this is started.\n`,
    );
  }
  expect(call([process.execPath, built, '--help'], without).code).toBe(0);
});

test('session files hold no value', () => {
  const sessions = join(made.dir, 'sessions');
  const files = listRegularFilesBelow(sessions).map((path) => join(sessions, path));
  expect(files.length).toBeGreaterThan(0);
  for (const file of files) expect(readFileSync(file, 'utf8'), file).not.toContain(CANARY);
});

test('the graph, SKILL.md and what lint loads speak of names, and see no value', () => {
  const graph = JSON.parse(
    call([process.execPath, BIN, 'skill', 'graph', 'curious', '--json'], environment()).text,
  ) as { readonly env: unknown };
  expect(graph.env).toEqual([TOKEN]);
  expect(call([process.execPath, BIN, 'skill', 'graph', 'curious'], environment()).text).toContain(
    `variables: ${TOKEN}`,
  );
  const text = readFileSync(join(made.dir, 'built/curious/SKILL.md'), 'utf8');
  expect(text).toContain(`## Variables`);
  expect(text).toContain(`- \`${TOKEN}\``);
  expect(text).not.toContain(CANARY);
});
