/** Commands of the pages that no test runs have options that exist, and the workflow file of the guide for CI is complete. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import { COMMANDS } from '../cli/command-table.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import { readPageParts } from './rig/pages.ts';
import { typeCommand } from './rig/runs/typed-command.ts';

// The help of a command loads the command.
vi.setConfig({ testTimeout: 180_000 });

const ROOT = findPackageRoot();
const CI_PAGE = 'docs/guides/run-in-ci.md';
const WORKFLOW = '.github/workflows/voidbox.yml';
const PAGES = ['docs', 'docs/start', 'docs/guides', 'docs/explain'].flatMap((folder) =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`),
);

interface Step {
  readonly uses?: string;
  readonly with?: Readonly<Record<string, unknown>>;
  readonly run?: string;
  readonly if?: string;
}

interface Job {
  readonly 'runs-on': string;
  readonly 'timeout-minutes': number;
  readonly container: { readonly image: string; readonly options: string };
  readonly env: Readonly<Record<string, string>>;
  readonly steps: readonly Step[];
}

interface Workflow {
  readonly on: Readonly<Record<string, unknown>>;
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

/** The words after each `voidbox` or `npx voidbox` that begins a command of a script, up to the next operator. */
function commandsIn(script: string): readonly (readonly string[])[] {
  const starts = /(?:^|[;&|({]|\$\()[ \t]*(?:\w+=\S*[ \t]+)*(?:npx[ \t]+)?voidbox[ \t]+([^\n;&|()<>]+)/gm;
  return [...script.replace(/\\\n/g, ' ').matchAll(starts)].map(([, words = '']) => words.trim().split(/\s+/));
}

/** Returns the command if it does not exist, else `COMMAND OPTION` for each option that it does not have. */
async function unknownIn(words: readonly string[]): Promise<readonly string[]> {
  const [first = '', second = ''] = words;
  const entry = COMMANDS.find(({ name }) => name === first);
  const verbs = entry !== undefined && 'commands' in entry ? entry.commands : null;
  if (entry === undefined || verbs?.every(({ name }) => name !== second) === true) return [words.join(' ')];
  const name = verbs === null ? [first] : [first, second];
  const { stdout } = await typeCommand([...name, '--help'], ROOT, {});
  const known = new Set(stdout.match(/(?<=^ {2}|^ {2}-\w, )--?[a-z0-9-]+/gm));
  // The words after the file of a step machine are its own command line.
  const own = name.join(' ') === 'skill run' ? 3 : -1;
  const end = own < 0 ? words.indexOf('--') : own;
  return words
    .slice(name.length, end < 0 ? undefined : end)
    .flatMap((word) => /^--?[a-z0-9][a-z0-9-]*/.exec(word)?.[0] ?? [])
    .filter((option) => !known.has(option))
    .map((option) => `${name.join(' ')} ${option}`);
}

async function allUnknownIn(script: string): Promise<readonly string[]> {
  return (await Promise.all(commandsIn(script).map(unknownIn))).flat();
}

function fencesOf(page: string): string {
  return [...page.matchAll(/^ *```(?:sh|yaml)\n([^]*?)^ *```$/gm)].map(([, body]) => body).join('\n');
}

test.each(PAGES)('the commands of %s have only options that exist', async (path) => {
  const page = readFileSync(join(ROOT, path), 'utf8');
  const typed = readPageParts(path, page).flatMap((part) => (part.kind === 'file' ? [] : part.commands));
  expect(await allUnknownIn([...typed, fencesOf(page)].join('\n'))).toEqual([]);
});

test('a command and an option that do not exist are found in a script', async () => {
  const script =
    'cd app && KEY=… npx voidbox run a.yaml --detached -d\n(voidbox sessions list) | voidbox logs -f latest';
  expect(commandsIn(script)).toHaveLength(3);
  expect(await allUnknownIn(script)).toEqual(['run --detached', 'sessions list']);
  expect(await allUnknownIn('voidbox session start tidy --at x; voidbox exec r s -- ls --color')).toEqual([
    'session start --at',
  ]);
});

describe('the workflow of the guide for CI', () => {
  const text = readPageParts(CI_PAGE, readFileSync(join(ROOT, CI_PAGE), 'utf8')).flatMap((part) =>
    part.kind === 'file' && part.path === WORKFLOW ? [part.text] : [],
  )[0]!;
  const workflow = parse(text) as Workflow;
  const jobs = Object.values(workflow.jobs);
  const steps = jobs.flatMap((job) => job.steps);

  test('has events, few permissions, and jobs with a runner, a container and a time limit', () => {
    expect(Object.keys(workflow.on)).toEqual(['push', 'pull_request']);
    expect(workflow.permissions).toEqual({ contents: 'read' });
    expect(jobs).toHaveLength(1);
    for (const job of jobs) {
      expect(job['runs-on']).toMatch(/^ubuntu-/);
      expect(job['timeout-minutes']).toBeGreaterThan(0);
      expect(job.container).toEqual({ image: expect.stringMatching(/^node:\d+-/), options: '--privileged' });
    }
  });

  test('has steps that either use an action of a version or run a script', () => {
    const keys = new Set(['name', 'if', 'uses', 'with', 'run', 'env']);
    for (const step of steps) {
      expect(Object.keys(step).filter((key) => !keys.has(key))).toEqual([]);
      expect([step.uses, step.run].filter((each) => each !== undefined)).toHaveLength(1);
      expect(step.uses ?? 'actions/checkout@v4').toMatch(/^[\w-]+\/[\w-]+@v\d+$/);
      expect(step.run === undefined || step.with === undefined).toBe(true);
    }
  });

  test('checks out the whole history, caches the folder that Voidbox uses, and always stops the stack', () => {
    expect(steps[0]).toMatchObject({ uses: expect.stringMatching(/^actions\/checkout@/), with: { 'fetch-depth': 0 } });
    const cached = steps.find(({ uses }) => uses?.startsWith('actions/cache@'));
    expect(cached?.with?.['path']).toBe(jobs[0]!.env['VOIDBOX_CACHE_DIR']);
    expect(steps.at(-1)).toMatchObject({ if: 'always()', run: 'voidbox down' });
  });

  test('names in its scripts only variables that the job or the runner sets', () => {
    const named = steps.flatMap(({ run }) => [...(run ?? '').matchAll(/\$\{?([A-Z_]+)/g)].map(([, name]) => name!));
    const known = new Set(['PWD', 'GITHUB_STEP_SUMMARY', ...Object.keys(jobs[0]!.env)]);
    expect(named.filter((name) => !known.has(name))).toEqual([]);
  });

  const hasActionlint = spawnSync('actionlint', ['-version']).status === 0;
  test.runIf(hasActionlint)('has no finding of actionlint', () => {
    const folder = mkdtempSync(join(tmpdir(), 'voidbox-workflow-'));
    try {
      writeFileSync(join(folder, 'voidbox.yml'), text);
      expect(execFileSync('actionlint', ['-no-color', 'voidbox.yml'], { cwd: folder, encoding: 'utf8' })).toBe('');
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
