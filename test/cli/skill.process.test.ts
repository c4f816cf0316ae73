/** `voidbox skill check | lint | graph`, typed. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));
const EXAMPLES = fileURLToPath(new URL('../../examples/skills/', import.meta.url));
const skillOf = (steps: string): string =>
  `import { skill, terminal } from 'voidbox/skill-kit';\nexport default skill({ name: 's', entry: 'a' })\n${steps}\n  .build();\n`;

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-skill-'));
  writeFileSync(join(dir, 'sound.ts'), skillOf("  .step('a', { prompt: 'a', next: terminal })"));
  writeFileSync(join(dir, 'loop.ts'), skillOf("  .step('a', { prompt: 'a', next: 'self' })"));
  writeFileSync(join(dir, 'broken.ts'), skillOf("  .step('a', { prompt: 'a', next: 'gone' })"));
  writeFileSync(join(dir, 'throws.ts'), "throw new Error('first\\nsecond \\u001b[31m');\n");
  writeFileSync(join(dir, 'syntax.ts'), 'export default skill({;\n');
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

interface Typed {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const typed = async (...args: readonly string[]): Promise<Typed> => typedIn({}, ...args);

async function typedIn(env: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<Typed> {
  return await new Promise((resolve) => {
    execFile(
      process.execPath,
      [BIN, 'skill', ...args],
      { cwd: dir, timeout: 30_000, env: { ...process.env, ...env } },
      (error, stdout, stderr) => {
        resolve({ code: typeof error?.code === 'number' ? error.code : error === null ? 0 : -1, stdout, stderr });
      },
    );
  });
}

describe('an error of the file system is named, and not reported as a bug', () => {
  const sound = skillOf("  .step('a', { prompt: 'a', next: terminal })").replace(
    "name: 's',",
    "name: 's', description: 'S.',",
  );
  // Links that lead to themselves are refused to root as well.
  const put = (name: string, ...loops: readonly string[]): string => {
    const folder = join(dir, name);
    mkdirSync(join(folder, 'references'), { recursive: true });
    writeFileSync(join(folder, 'skill.ts'), sound);
    for (const loop of loops) {
      rmSync(join(folder, loop), { recursive: true, force: true });
      symlinkSync(loop.replace(/^.*\//, ''), join(folder, loop));
    }
    return folder;
  };

  test.each([
    ['lint', 'skill.ts', /^error: .*skill\.ts cannot be read: ELOOP/],
    ['lint', 'references', /^error: .*references cannot be read: ELOOP/],
    ['build', 'references', /^error: .*references cannot be read: ELOOP/],
    [
      'build',
      'references/a.md',
      /^error: .*references\/a\.md cannot be copied: ELOOP.*\n  Fix what the message names\.\n$/,
    ],
  ])('skill %s, of %s', async (command, loop, message) => {
    const folder = put(`loop-${command}-${loop.replace('/', '-')}`, loop);
    const { code, stderr } = await typed(command, folder, ...(command === 'build' ? ['-o', join(dir, 'out/s')] : []));
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(message) });
  });

  test.each(['run', 'graph'])('skill %s, without a place for temporary files', async (command) => {
    const folder = put(`no-place-${command}`);
    const { code, stderr } = await typedIn(
      { TMPDIR: join(dir, 'nowhere') },
      command,
      folder,
      ...(command === 'run' ? ['start'] : []),
    );
    const message =
      /^error: .*nowhere, the folder for temporary files, is not usable: ENOENT.* Set TMPDIR to a writable folder\n/;
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(message) });
  });
});

describe('skill lint', () => {
  test('the examples are clean', async () => {
    const entries = ['contributor-guide', 'parallel-review', 'release-approval', 'repository-doctor'].map((name) =>
      join(EXAMPLES, `${name}.ts`),
    );
    expect(await typed('lint', '--max-warnings', '0', ...entries)).toEqual({
      code: 0,
      stdout: 'no problems\n',
      stderr: '',
    });
  });

  test('says place, rule and remedy, and all entries at once', async () => {
    const { code, stdout } = await typed('lint', 'loop.ts', 'broken.ts', 'syntax.ts', 'throws.ts');
    expect(stdout).toMatch(
      new RegExp(
        [
          '^broken\\.ts:3:9: error\\[unknown-target\\]: Step "a" has next "gone" which does not exist in steps\\.\n  help: .+\n',
          'loop\\.ts:3:9: warning\\[cycle-guard\\]: .+\n  help: .+\n',
          'syntax\\.ts:1:\\d+: error\\[syntax\\]: .+\n  help: .+\n',
          'throws\\.ts:1:1: error\\[definition\\]: first\n  second\n  help: .+\n',
          '3 errors, 1 warning\n$',
        ].join(''),
      ),
    );
    expect(code).toBe(1);
  });

  test('warnings are no failure, unless there are more than allowed', async () => {
    expect((await typed('lint', 'loop.ts')).code).toBe(0);
    expect((await typed('lint', 'loop.ts', '--max-warnings', '1')).code).toBe(0);
    expect((await typed('lint', 'loop.ts', '--max-warnings', '0')).code).toBe(1);
    expect((await typed('lint', 'loop.ts', '--max-warnings', 'few')).code).toBe(2);
  });

  test('as JSON', async () => {
    const { code, stdout } = await typed('lint', '--json', 'loop.ts');
    expect(JSON.parse(stdout)).toEqual({
      errors: 0,
      warnings: 1,
      diagnostics: [
        {
          rule: 'cycle-guard',
          severity: 'warning',
          message: 'Step "a" leads to itself without maxVisits; the implicit limit of 10 visits applies.',
          remedy: expect.any(String) as string,
          step: 'a',
          file: 'loop.ts',
          line: 3,
          column: 9,
        },
      ],
    });
    expect(code).toBe(0);
  });

  test('the name of an absent skill is a usage error', async () => {
    const { code, stderr } = await typed('lint', 'gone.ts');
    expect(code).toBe(2);
    expect(stderr).toContain('gone.ts');
  });

  test('an entry that does not exist hides nothing of the others', async () => {
    const { code, stdout, stderr } = await typed('lint', 'gone.ts', 'loop.ts', 'broken.ts');
    expect(stdout).toMatch(/^broken\.ts:3:9: error[^]*\nloop\.ts:3:9: warning[^]*\n1 error, 1 warning\n$/);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('gone.ts') as string });
  });
});

describe('skill check', () => {
  test('0 for a sound skill, 1 for one with mistakes, which it names', async () => {
    expect(await typed('check', 'sound.ts')).toEqual({ code: 0, stdout: 's 0.0.0: no problems\n', stderr: '' });
    const { code, stdout } = await typed('check', 'broken.ts');
    expect(stdout).toMatch(
      /^error\[unknown-target\]: Step "a" has next "gone" which does not exist in steps\.\n {2}help: .+\n1 error\n$/,
    );
    expect(code).toBe(1);
  });

  test('as JSON', async () => {
    expect(JSON.parse((await typed('check', '--json', 'loop.ts')).stdout)).toMatchObject({
      kind: 'skill',
      name: 's',
      version: '0.0.0',
      diagnostics: [{ rule: 'cycle-guard', step: 'a' }],
    });
    expect(JSON.parse((await typed('check', '--json', 'throws.ts')).stdout)).toMatchObject({
      kind: null,
      name: null,
      diagnostics: [{ rule: 'definition' }],
    });
  });
});

describe('code that is looked at', () => {
  const SOUND = skillOf("  .step('a', { prompt: 'a', next: terminal })");

  test.each([
    ['lint', 1],
    ['check', 1],
    ['graph', 2],
    ['build', 2],
  ])('does not end skill %s, nor hold it up', async (command, expected) => {
    const out = command === 'build' ? ['-o', join(dir, 's')] : [];
    for (const [line, message] of [
      ['process.exit(0);', 'it calls process.exit(0)'],
      ['await new Promise(() => undefined);', 'it waits for something that never comes'],
    ] as const) {
      writeFileSync(join(dir, 'ends.ts'), `${line}\n${SOUND}`);
      const { code, stdout, stderr } = await typed(command, 'ends.ts', ...out);
      expect({ code, said: stdout + stderr }).toEqual({
        code: expected,
        said: expect.stringContaining(message) as string,
      });
    }
  });

  test('prints beside the results', async () => {
    writeFileSync(join(dir, 'prints.ts'), `console.log('loading');\n${SOUND}`);
    for (const command of ['lint', 'check', 'graph']) {
      const { stdout, stderr } = await typed(command, 'prints.ts', '--json');
      expect(JSON.parse(stdout)).toBeTypeOf('object');
      expect(stderr).toBe('loading\n');
    }
  });
});

describe('skill graph', () => {
  test('as text, for Mermaid, as JSON', async () => {
    expect((await typed('graph', 'loop.ts')).stdout).toBe('s 0.0.0: 1 step\n▶ a  prompt\n  └─ ↺ a\n');
    expect((await typed('graph', 'loop.ts', '--format', 'mermaid')).stdout).toMatch(/^flowchart TD\n {2}m_start/);
    expect(JSON.parse((await typed('graph', 'loop.ts', '--json')).stdout)).toMatchObject({
      name: 's',
      steps: [{ name: 'a', isEntry: true }],
      edges: [{ from: 'a', to: 'a', kind: 'next', isBack: true }],
    });
  });

  test('docs/reference/skill-kit.md shows what is drawn', async () => {
    const page = readFileSync(new URL('../../docs/reference/skill-kit.md', import.meta.url), 'utf8');
    expect(page).toContain(
      `\n\`\`\`\n${(await typed('graph', join(EXAMPLES, 'repository-doctor.ts'))).stdout}\`\`\`\n`,
    );
  });

  test('what cannot be drawn is the mistake of its author', async () => {
    expect((await typed('graph', 'broken.ts')).code).toBe(2);
    expect((await typed('graph', 'loop.ts', '--format', 'png')).code).toBe(2);
  });
});
