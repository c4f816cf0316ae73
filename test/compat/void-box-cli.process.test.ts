/**
 * Each row of docs/reference/void-box.md at the command line, in a checkout of Void-Box with `--base-dir .`: the refusals of
 * `run`, and its questions.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { type Typed, typeCommand } from '../rig/runs/typed-command.ts';

interface Row {
  readonly file: string;
  readonly runs: boolean;
  readonly needs: string;
}

const DOCS = readFileSync(join(findPackageRoot(), 'docs/reference/void-box.md'), 'utf8');
const ROWS: readonly Row[] = [...DOCS.matchAll(/^\| `([^`]+)` \| (yes|no) \| (.+) \|$/gm)].map(
  ([, file, runs, needs]) => ({ file: file!, runs: runs === 'yes', needs: needs! }),
);
const SKILL = 'examples/hackernews/skills/hackernews-api.md';

/** The words of the table for the variable that the example needs. */
const VARIABLES: readonly (readonly [words: RegExp, name: string])[] = [
  [/TELEGRAM_BOT_TOKEN|the token/, 'TELEGRAM_BOT_TOKEN'],
  [/a key of (?:Claude|Anthropic)/, 'ANTHROPIC_API_KEY'],
  [/`GITHUB_TOKEN` may be empty/, 'GITHUB_TOKEN'],
  [/a key of OpenAI/, 'OPENAI_API_KEY'],
  [/a login of Claude/, 'CLAUDE_CODE_OAUTH_TOKEN'],
];
/** The row says "the image" if the row before names it. */
const OPENCLAW = 'alpine/openclaw:latest';

let dir: string;
beforeAll(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-compat-')));
  cpSync(join(import.meta.dirname, 'void-box'), join(dir, 'examples'), { recursive: true });
  mkdirSync(join(dir, 'home'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** A variable or an image is missing each time, so no command starts a stack. */
async function type(command: 'run' | 'validate', file: string, given: readonly string[]): Promise<Typed> {
  const variables = { HOME: join(dir, 'home'), VOIDBOX_STATE_DIR: join(dir, 'state') };
  return await typeCommand([command, join('examples', file), ...given], dir, variables);
}

function imageOf(needs: string): string | null {
  return /--image ([^`=]+)=PATH/.exec(needs)?.[1] ?? (needs.includes('the image') ? OPENCLAW : null);
}

function writeSkill(): void {
  mkdirSync(join(dir, SKILL, '..'), { recursive: true });
  writeFileSync(join(dir, SKILL), 'Ask the API of Hacker News.\n');
}

test('the table has the 26 examples', () => {
  expect(ROWS).toHaveLength(26);
});

const REFUSED = ROWS.filter(({ file, runs }) => !runs && file !== 'specs/codex_workflow_smoke.yaml');
test.each(REFUSED)('$file is refused, for the reason that the table names', async ({ file, needs }) => {
  const { code, stdout, stderr } = await type('run', file, ['--base-dir', '.']);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain('this build of Voidbox cannot run it');
  const quoted = /`([^`]+)`/.exec(needs)?.[1];
  expect(stderr).toContain(quoted ?? 'has an agent skill of the image');
});

/**
 * The first thing that the command asks for. It asks for an image before variables, because it reads variables when the
 * run starts.
 */
function firstRefusal(needs: string): { readonly code: number; readonly says: string } {
  const image = imageOf(needs);
  if (image !== null) return { code: 2, says: `the image "${image}" is a name in a registry` };
  return { code: 3, says: `the spec reads \`${variablesOf(needs)[0]}\`` };
}

const variablesOf = (needs: string): readonly string[] =>
  VARIABLES.filter(([words]) => words.test(needs)).map(([, name]) => name);

const ASKING = ROWS.filter(({ runs, needs }) => runs && !needs.startsWith('nothing'));
test.each(ASKING)('$file asks for what the table names', async ({ file, needs }) => {
  writeSkill();
  const { code, says } = firstRefusal(needs);
  expect(await type('run', file, ['--base-dir', '.'])).toEqual({
    code,
    stdout: '',
    stderr: expect.stringContaining(says) as string,
  });
  const { stdout } = await type('validate', file, ['--base-dir', '.']);
  const [, read = ''] = /^variables of the host: (.+)$/m.exec(stdout) ?? [];
  const names = read.split(', ').flatMap((text) => text.replace(' (may be unset)', '') || []);
  expect(names.toSorted()).toEqual(variablesOf(needs).toSorted());
});

test('hackernews_agent.yaml needs `--base-dir .`, as its row says, and its skill', async () => {
  const [row] = ROWS.filter(({ needs }) => needs.includes('`--base-dir .`'));
  expect(row?.file).toBe('hackernews/hackernews_agent.yaml');
  rmSync(join(dir, SKILL), { force: true });
  expect((await type('run', row!.file, ['--base-dir', '.'])).stderr).toContain(
    `the agent skill ${join(dir, SKILL)} of stage`,
  );
  writeSkill();
  const { code, stderr } = await type('run', row!.file, []);
  expect(code).toBe(2);
  expect(stderr.replaceAll(/\s+/g, ' ')).toContain(`--base-dir ${dir}`);
});
