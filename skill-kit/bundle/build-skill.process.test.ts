/** Skills built by `voidbox skill build`, run as agents run them. */
import { execFile } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { listRegularFilesBelow } from '../../setup/cache/files-below.ts';
import { TemporaryFolder, type Ran } from '../../test/rig/skills/skill-command.ts';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..');
const BIN = join(ROOT, 'bin/voidbox.js');
const EXAMPLES = join(ROOT, 'examples/skills');

interface Where {
  readonly cwd?: string;
  readonly path?: string;
}

function run(
  program: string,
  args: readonly string[],
  { cwd = tmpdir(), path = process.env['PATH'] ?? '' }: Where = {},
): Promise<Ran> {
  return new Promise((resolve) => {
    execFile(
      program,
      [...args],
      { cwd, env: { ...process.env, PATH: path }, maxBuffer: 16 * 1024 * 1024 },
      (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
      },
    );
  });
}

const build = (entry: string, out: string, args: readonly string[] = [], where: Where = {}): Promise<Ran> =>
  run(process.execPath, [BIN, 'skill', 'build', entry, '-o', out, ...args], where);

async function mustBuild(entry: string, out: string, args: readonly string[] = [], where: Where = {}): Promise<void> {
  expect(await build(entry, out, args, where)).toMatchObject({ code: 0, stdout: `${out}\n` });
}

/** Path and content of everything below a folder, and whether it may be executed. */
function contentOf(folder: string): Record<string, string> {
  const paths = listRegularFilesBelow(folder).map((path) => join(folder, path));
  return Object.fromEntries(
    paths.map((path) => [`${path.slice(folder.length)} ${statSync(path).mode & 0o111}`, readFileSync(path, 'base64')]),
  );
}

/** Splits files in `bin/` into the parts that the program loads on demand, and all others. */
function partsOf(name: string, files: readonly string[]): [string[], string[]] {
  const part = new RegExp(`(^|/)${name}\\.part-[\\w-]{8}\\.[cm]js(?: 0)?$`);
  return [files.filter((file) => part.test(file)), files.filter((file) => !part.test(file))];
}

/** A folder and all below it. */
function foldersIn(folder: string): string[] {
  const below = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return [folder, ...below.flatMap((entry) => foldersIn(join(folder, entry.name)))];
}

/** Goes through a skill with a session file, as SKILL.md says, and gives the final output. */
async function wentThrough(
  skill: string,
  params: unknown,
  answers: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  const call = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await run(join(skill, 'scripts/run'), args);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return stdout;
  };
  const sessions = mkdtempSync(join(tmpdir(), 'voidbox-sessions-'));
  try {
    const begun = await call(
      'start',
      '--session',
      'new',
      '--session-dir',
      sessions,
      '--host',
      'claude-code',
      '--params',
      JSON.stringify(params),
    );
    const { sessionId, file, line } = JSON.parse(begun) as { sessionId: string; file: string; line: number };
    let at = line;
    for (let turn = 0; turn < 20; turn++) {
      const result = JSON.parse(readFileSync(file, 'utf8').split('\n')[at - 1]!) as {
        kind: string;
        step: string;
        finalOutput?: unknown;
        open?: { step: string }[];
      };
      if (result.kind === 'done') return result.finalOutput;
      expect(result).toMatchObject({ kind: 'prompt', prompt: expect.stringContaining('<prompt>') as string });
      const { [result.step]: answer } = answers;
      writeFileSync(file, `${JSON.stringify({ type: 'output', step: result.step, output: answer })}\n`, { flag: 'a' });
      at = Number(await call('advance', '--session', sessionId, '--session-dir', sessions));
    }
    throw new Error('the skill did not come to an end');
  } finally {
    rmSync(sessions, { recursive: true, force: true });
  }
}

describe('the examples, built', () => {
  let out: string;
  const names = ['contributor-guide', 'parallel-review', 'release-approval', 'repository-doctor'];
  beforeAll(async () => {
    out = mkdtempSync(join(tmpdir(), 'voidbox-built-'));
    for (const name of names) await mustBuild(join(EXAMPLES, `${name}.ts`), join(out, name));
  });
  afterAll(() => rmSync(out, { recursive: true, force: true }));

  it.each(names)('%s is a folder of agentskills.io that names nothing of this machine', (name) => {
    const [, head = '', body = ''] = readFileSync(join(out, name, 'SKILL.md'), 'utf8').split(/^---$/m);
    const { name: called, description, ...rest } = parse(head) as Record<string, unknown>;
    expect(called).toBe(name);
    expect((description as string).length).toBeLessThanOrEqual(1024);
    expect(Object.keys(rest)).toEqual(['compatibility', 'metadata', 'allowed-tools']);
    expect(body.split('\n').length).toBeLessThan(500);
    const [parts, others] = partsOf(name, Object.keys(contentOf(join(out, name))));
    expect(others.toSorted()).toEqual(
      [`/SKILL.md 0`, `/package.json 0`, `/bin/${name}.cjs 0`, `/scripts/run ${0o111}`].toSorted(),
    );
    // The code for MCP and durable sessions is in parts, so that other calls do not load it.
    expect(parts.length).toBeGreaterThan(1);
    for (const text of Object.values(contentOf(join(out, name))))
      expect(Buffer.from(text, 'base64').toString()).not.toContain(ROOT);
  });

  it('repository-doctor runs its action and repairs, round by round', async () => {
    using patient = new TemporaryFolder();
    for (const file of ['README.md', 'LICENSE', 'CHANGELOG.md', '.gitignore'])
      writeFileSync(patient.file(file), 'text');
    expect(await wentThrough(join(out, 'repository-doctor'), { folder: patient.path }, {})).toEqual({
      healthy: true,
      repaired: [],
    });
    rmSync(patient.file('LICENSE'));
    const referred = await wentThrough(
      join(out, 'repository-doctor'),
      { folder: patient.path },
      { treat: { file: 'none' } },
    );
    expect(referred).toEqual({ healthy: false, repaired: ['none', 'none', 'none', 'none', 'none'] });
  });

  it('contributor-guide leads to its sub-skill, and to a topic', async () => {
    const answers = {
      ask: { want: 'set-up', language: 'Rust' },
      'set-up/tools': { tools: { cargo: '1' } },
      'set-up/build': { passed: true, lastLines: 'ok' },
    };
    expect(await wentThrough(join(out, 'contributor-guide'), {}, answers)).toEqual({
      ready: true,
      tools: { cargo: '1' },
    });
    expect(await wentThrough(join(out, 'contributor-guide'), {}, { ask: { want: 'style' } })).toMatchObject({
      topic: 'style',
    });
    expect(await run(join(out, 'contributor-guide/scripts/run'), ['topic', 'style'])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('full words') as string,
    });
  });

  it('parallel-review waits for all three, release-approval for a person', async () => {
    const review = { approved: true, remarks: [] };
    const reviews = { read: { summary: 'Adds a cache' }, correctness: review, security: review, clarity: review };
    expect(await wentThrough(join(out, 'parallel-review'), { change: 'main' }, reviews)).toMatchObject({
      approved: true,
    });
    const approval = { notes: { notes: 'Faster.', breaking: false }, approve: { approved: true, by: 'Ada' } };
    expect(await wentThrough(join(out, 'release-approval'), { version: '2' }, approval)).toEqual({
      outcome: 'released',
      version: '2',
      by: 'Ada',
    });
  });

  it('run from anywhere, moved, and by a link', async () => {
    cpSync(join(out, 'contributor-guide'), join(out, 'elsewhere'), { recursive: true });
    symlinkSync(join(out, 'elsewhere/scripts/run'), join(out, 'link'));
    for (const [program, cwd] of [
      ['scripts/run', join(out, 'elsewhere')],
      ['./run', join(out, 'elsewhere/scripts')],
      [join(out, 'link'), '/'],
    ] as const)
      expect(await run(program, ['topics'], { cwd })).toEqual({
        code: 0,
        stdout: 'style: How code looks here\nreview: How reviews go\n',
        stderr: '',
      });
    expect(await run('sh', ['run', 'topics'], { cwd: join(out, 'elsewhere/scripts') })).toMatchObject({ code: 0 });
  });

  it('say what is missing if there is no Node, or an old one', async () => {
    using folder = new TemporaryFolder();
    const script = join(out, 'release-approval/scripts/run');
    expect(await run('/bin/sh', [script, 'start'], { path: folder.path })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/there is no node on the PATH/) as string,
    });
    writeFileSync(folder.file('node'), '#!/bin/sh\necho v18.20.1\n', { mode: 0o755 });
    expect(await run('/bin/sh', [script, 'start'], { path: folder.path })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/needs Node.js 20 or newer; .* is v18\.20\.1/) as string,
    });
  });
});

const READER = `
  import { skill, terminal, z } from 'voidbox/skill-kit';
  import { question } from 'wording';
  export default skill({ name: 'reader', description: 'Reads a guide.', resolveVersion: true, package: { private: true, keywords: ['guide'] }, entry: 'read' })
    .step('read', { prompt: ({ refs }) => question + refs.load('deep/guide.md') + refs.asset('assets/x.txt'), response: z.object({ text: z.string() }), next: terminal })
    .topic('guide', { label: 'The guide', content: ({ refs }) => refs.load('deep/guide.md') })
    .build();
`;

describe('a skill with references and a package of its own', () => {
  let folder: TemporaryFolder;
  beforeEach(() => {
    folder = new TemporaryFolder();
    put('source/skill.ts', READER);
    put('source/package.json', '{ "version": "3.1.0" }');
    put('source/references/deep/guide.md', 'The guide.');
    put('source/assets/x.txt', 'asset');
    put('source/node_modules/wording/package.json', '{ "name": "wording", "type": "module", "main": "index.js" }');
    put('source/node_modules/wording/index.js', "export const question = 'What of: ';");
  });
  afterEach(() => {
    for (const path of foldersIn(folder.path)) chmodSync(path, 0o755);
    folder[Symbol.dispose]();
  });

  function put(name: string, text: string, mode = 0o644): void {
    mkdirSync(dirname(folder.file(name)), { recursive: true });
    writeFileSync(folder.file(name), text, { mode });
  }
  const source = (): string => folder.file('source');
  const out = (): string => folder.file('out/reader');
  it('is built from a source that cannot be written, which is not touched, into one that can', async () => {
    for (const path of foldersIn(source())) chmodSync(path, 0o555);
    // Creating and removing a file would change the folder's time, even for root.
    const times = (): number[] => foldersIn(source()).map((path) => statSync(path).mtimeMs);
    const before = times();
    await mustBuild(source(), out());
    await mustBuild(source(), out());
    expect(times()).toEqual(before);
    expect(statSync(join(out(), 'references/deep')).mode & 0o777).toBe(0o755);
    renameSync(source(), folder.file('gone'));
    const { code, stdout } = await run(join(out(), 'scripts/run'), ['start']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      prompt: `<prompt>\nWhat of: The guide.${out()}/assets/x.txt\n</prompt>`,
    });
    expect(readFileSync(join(out(), 'assets/x.txt'), 'utf8')).toBe('asset');
    expect(await run(join(out(), 'scripts/run'), ['topic', 'guide'])).toMatchObject({
      code: 0,
      stdout: 'The guide.\n',
    });
    expect(await run(join(out(), 'scripts/run'), ['--help'])).toMatchObject({
      stderr: expect.stringMatching(/^reader 3\.1\.0\n/) as string,
    });
  });

  it('has the same bytes when it is built again, and from another place', async () => {
    await mustBuild(source(), out());
    const first = contentOf(out());
    await mustBuild(source(), out());
    expect(contentOf(out())).toEqual(first);
    cpSync(source(), folder.file('deeper/down/copy'), { recursive: true });
    await mustBuild(folder.file('deeper/down/copy/skill.ts'), folder.file('other/reader'));
    expect(contentOf(folder.file('other/reader'))).toEqual(first);
  });

  it('merges package.json, replaces what a build wrote, and keeps everything else', async () => {
    put('out/reader/package.json', '{ "name": "old", "author": "Ada", "keywords": ["x"], "version": "0.1.0" }');
    await mustBuild(source(), out());
    expect(JSON.parse(readFileSync(join(out(), 'package.json'), 'utf8'))).toEqual({
      name: 'reader',
      author: 'Ada',
      keywords: ['guide'],
      version: '3.1.0',
      private: true,
    });
    put('out/reader/LICENSE', 'mine');
    put('out/reader/bin/reader-database.cjs', 'mine');
    for (const earlier of ['reader-linux-x64', 'reader.mjs', 'reader.part-AbCd_-12.mjs'])
      put(`out/reader/bin/${earlier}`, 'of an earlier build');
    rmSync(folder.file('source/references/deep'), { recursive: true });
    put('source/references/other.md', 'Other.');
    await mustBuild(source(), out());
    expect(readFileSync(join(out(), 'LICENSE'), 'utf8')).toBe('mine');
    expect(partsOf('reader', readdirSync(join(out(), 'bin')))[1]).toEqual(['reader-database.cjs', 'reader.cjs']);
    expect(existsSync(join(out(), 'bin/reader.part-AbCd_-12.mjs'))).toBe(false);
    expect(readdirSync(join(out(), 'references'))).toEqual(['other.md']);
    expect(readdirSync(folder.file('out'))).toEqual(['reader']);
  });

  it('may be built into its own source folder with `--force`', async () => {
    cpSync(source(), folder.file('reader'), { recursive: true });
    expect(await build('reader', 'reader', [], { cwd: folder.path })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('that no build made') as string,
    });
    expect(existsSync(folder.file('reader/SKILL.md'))).toBe(false);
    await mustBuild(folder.file('reader'), folder.file('reader'), ['--force']);
    expect(readdirSync(folder.file('reader')).toSorted()).toEqual([
      'SKILL.md',
      'assets',
      'bin',
      'node_modules',
      'package.json',
      'references',
      'scripts',
      'skill.ts',
    ]);
    expect(await run(folder.file('reader/scripts/run'), ['topic', 'guide'])).toMatchObject({ stdout: 'The guide.\n' });
  });

  it('is refused with every reason, and nothing is written', async () => {
    put('source/skill.ts', READER.replace("'reader', description: 'Reads a guide.'", "'The Reader'"));
    const result = await build('source', 'out', ['--json'], { cwd: folder.path });
    expect(result).toMatchObject({ code: 2, stdout: '' });
    const { error } = JSON.parse(result.stderr) as { error: { code: string; message: string; remedy: string } };
    expect(error).toMatchObject({
      code: 'skill/not-compliant',
      message: expect.stringMatching(/the name "The Reader".*; it has no description/) as string,
    });
    expect(readdirSync(folder.path)).toEqual(['source']);
  });

  it('is not built without a version where it asks for one', async () => {
    rmSync(folder.file('source/package.json'));
    expect(await build(source(), out())).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('resolveVersion') as string,
    });
  });

  it('says in JSON what was built', async () => {
    const { stdout } = await build(source(), out(), ['--json', '--protocol', 'stateless']);
    const { files, ...rest } = JSON.parse(stdout) as { readonly files: readonly string[] };
    expect(partsOf('reader', files)[1]).toEqual([
      'SKILL.md',
      'assets/x.txt',
      'bin/reader.cjs',
      'package.json',
      'references/deep/guide.md',
      'scripts/run',
    ]);
    expect(rest).toEqual({
      name: 'reader',
      version: '3.1.0',
      folder: out(),
      mode: 'node',
      notes: [],
      diagnostics: [],
    });
    expect(readFileSync(join(out(), 'SKILL.md'), 'utf8')).toContain('--history');
  });

  it('refuses references that are no folder', async () => {
    rmSync(join(source(), 'references'), { recursive: true });
    put('source/references', 'x');
    expect(await build(source(), out())).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/references is not a folder/) as string,
    });
  });

  it('warns a shell whose working folder is exchanged', async () => {
    mkdirSync(out(), { recursive: true });
    const { code, stderr } = await build(source(), '.', [], { cwd: out() });
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringContaining('note: the folder that you are in has been replaced') as string,
    });
    expect((await build(source(), out(), [], { cwd: dirname(out()) })).stderr).not.toContain('replaced');
  });

  describe('for bun', () => {
    /** Writes down how it is called; its executables say their name and arguments. */
    const FAKE = `#!/bin/sh
here=\${0%/*}
echo "$@" >> "$here/calls"
case "$*" in *darwin-x64*) echo "no such target" >&2; exit 1 ;; esac
cp "$6" "$here/code.mjs"
printf '#!/bin/sh\\necho "%s $*"\\n' "\${5##*/}" > "$5"
chmod 755 "$5"
`;
    const path = (): string => `${folder.file('fake')}:${process.env['PATH']}`;
    const calls = (): string[] => readFileSync(folder.file('fake/calls'), 'utf8').trimEnd().split('\n');

    it('calls bun once for each target, and scripts/run takes the one of this machine', async () => {
      put('fake/bun', FAKE, 0o755);
      await mustBuild(source(), out(), ['--mode', 'bun', '--targets', 'linux-x64,linux-arm64'], { path: path() });
      const made = /^build --compile --target=bun-(\S+) --outfile (\S+)\/bin\/reader-\1 \2\/bin\/reader\.mjs$/;
      expect(calls().map((call) => made.exec(call)?.[1])).toEqual(['linux-x64', 'linux-arm64']);
      expect(readdirSync(join(out(), 'bin')).toSorted()).toEqual(['reader-linux-arm64', 'reader-linux-x64']);
      const here = `${process.platform}-${process.arch}`;
      expect(await run(join(out(), 'scripts/run'), ['start', 'a b'])).toEqual({
        code: 0,
        stdout: `reader-${here} start a b\n`,
        stderr: '',
      });
      expect(readFileSync(join(out(), 'references/deep/guide.md'), 'utf8')).toBe('The guide.');
      expect(readFileSync(join(out(), 'SKILL.md'), 'utf8')).toContain('Runs on linux-x64, linux-arm64.');
      rmSync(join(out(), `bin/reader-${here}`));
      expect(await run(join(out(), 'scripts/run'), [])).toMatchObject({
        code: 1,
        stderr: expect.stringContaining(`this is ${here}`) as string,
      });
    });

    it('what bun is given finds references above the executable, and needs no other file', async () => {
      put('fake/bun', FAKE, 0o755);
      await mustBuild(source(), out(), ['--mode', 'bun', '--single'], { path: path() });
      expect(calls()).toEqual([expect.stringContaining(`--target=bun-${process.platform}-${process.arch} `)]);
      // The executable is a Node that runs the same code.
      const node = join(out(), 'bin/node');
      cpSync(process.execPath, node);
      const code = folder.file('alone/code.mjs');
      put('alone/code.mjs', readFileSync(folder.file('fake/code.mjs'), 'utf8'));
      expect(await run(node, [code, 'topic', 'guide'])).toEqual({ code: 0, stdout: 'The guide.\n', stderr: '' });
    });

    it('says which targets failed, and leaves what was there', async () => {
      put('fake/bun', FAKE, 0o755);
      await mustBuild(source(), out());
      const before = contentOf(out());
      const result = await build(source(), out(), ['--mode', 'bun', '--targets', 'linux-x64,darwin-x64'], {
        path: path(),
      });
      expect(result).toMatchObject({
        code: 3,
        stdout: '',
        stderr: expect.stringMatching(/1 of 2 targets:\ndarwin-x64: no such target/) as string,
      });
      expect(contentOf(out())).toEqual(before);
    });

    it.each(['INT', 'TERM', 'HUP'])(
      'a build that is ended by SIG%s leaves nothing behind, and what was there',
      async (signal) => {
        await mustBuild(source(), out());
        const before = [readdirSync(dirname(out())), contentOf(out())];
        // The signal comes while bun works.
        put('fake/bun', `#!/bin/sh\necho $$ > "\${0%/*}/pid"\nkill -${signal} $PPID\nexec sleep 10\n`, 0o755);
        const args = [BIN, 'skill', 'build', source(), '-o', out(), '--mode', 'bun', '--single'];
        const ended = await new Promise((resolve) =>
          execFile(process.execPath, args, { env: { ...process.env, PATH: path() } }, resolve),
        );
        expect(ended).toMatchObject({ signal: `SIG${signal}` });
        expect([readdirSync(dirname(out())), contentOf(out())]).toEqual(before);
        const bun = `/proc/${readFileSync(folder.file('fake/pid'), 'utf8').trim()}/cmdline`;
        // An ended process has no command line, even before its parent has waited for it.
        await expect.poll(() => (existsSync(bun) ? readFileSync(bun, 'utf8') : '')).toBe('');
      },
    );

    it('says where to get bun if it is not installed', async () => {
      const result = await build(source(), out(), ['--mode', 'bun'], { path: folder.path });
      expect(result).toMatchObject({
        code: 3,
        stderr: expect.stringMatching(/no bun on the PATH[^]*https:\/\/bun\.sh[^]*--mode node/) as string,
      });
      expect(existsSync(out())).toBe(false);
    });

    it.each([
      [['--mode', 'bun', '--targets', 'win32-x64'], 'unknown build target: `win32-x64`'],
      [['--mode', 'bun', '--targets', 'linux-x64', '--single'], 'cannot be combined'],
      [['--mode', 'deno'], '--mode is `deno`'],
      [['--protocol', 'x'], '--protocol is `x`'],
    ])('%j is a wrong command line', async (args, message) => {
      expect(await build(source(), out(), args)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining(message) as string,
      });
    });
  });
});

describe('other skills', () => {
  it.each([
    ['that awaits at its top level', "const { length } = await Promise.resolve('four');", 4],
    ['that asks where another module is', "const { length } = import.meta.resolve('./x').slice(-1);", 1],
    ['that looks whether it is CommonJS', "const length = typeof module === 'undefined' ? 4 : -1;", 4],
  ])('one %s is built as ES modules', async (_what, code, length) => {
    using folder = new TemporaryFolder();
    writeFileSync(
      folder.file('skill.ts'),
      `import { skill, terminal } from 'voidbox/skill-kit';
       ${code}
       export default skill({ name: 'early', description: 'd', entry: 'a' }).step('a', { prompt: () => \`length \${length}\`, next: terminal }).build();`,
    );
    await mustBuild(folder.path, folder.file('early'));
    expect(partsOf('early', readdirSync(folder.file('early/bin')))[1]).toEqual(['early.mjs']);
    const { stdout } = await run(folder.file('early/scripts/run'), ['start']);
    expect(JSON.parse(stdout)).toMatchObject({ prompt: expect.stringContaining(`length ${length}`) as string });
  });

  it('one is as strict as its source, in parts too', async () => {
    using folder = new TemporaryFolder();
    writeFileSync(folder.file('part.ts'), 'export const own = function (this: unknown) { return typeof this; };');
    writeFileSync(
      folder.file('skill.ts'),
      `import { skill, terminal, z } from 'voidbox/skill-kit';
       const action = async ({ response }) => {
         const { own } = await import('./part.ts');
         try { response.v = 2; } catch ({ name }) { return [name, own.call(undefined)]; }
       };
       export default skill({ name: 'strict', description: 'd', entry: 'a' })
         .step('a', { prompt: 'A', response: z.object({ v: z.number() }), action, next: terminal }).build();`,
    );
    await mustBuild(folder.path, folder.file('strict'));
    expect(partsOf('strict', readdirSync(folder.file('strict/bin')))[1]).toEqual(['strict.cjs']);
    const { stdout } = await run(folder.file('strict/scripts/run'), ['advance', '--step', 'a', '--output', '{"v":1}']);
    expect(JSON.parse(stdout)).toMatchObject({ kind: 'done', finalOutput: ['TypeError', 'undefined'] });
  });

  it('one whose code fails while loading reports the failure when it is called', async () => {
    using folder = new TemporaryFolder();
    writeFileSync(
      folder.file('skill.ts'),
      `import { skill, terminal } from 'voidbox/skill-kit';
       if (process.env['LC_BROKEN'] !== undefined) throw new Error('no luck today');
       export default skill({ name: 'broken', description: 'd', entry: 'a' }).step('a', { prompt: 'A', next: terminal }).build();`,
    );
    await mustBuild(folder.path, folder.file('broken'));
    process.env['LC_BROKEN'] = '1';
    try {
      expect(await run(folder.file('broken/scripts/run'), ['start'])).toMatchObject({
        code: 1,
        stdout: '',
        stderr: expect.stringContaining('no luck today') as string,
      });
    } finally {
      delete process.env['LC_BROKEN'];
    }
  });

  it('one with ArkType loads no HTTP client to start, and still knows the classes of the web', async () => {
    using folder = new TemporaryFolder();
    writeFileSync(
      folder.file('skill.ts'),
      `import { skill, terminal, type } from 'voidbox/skill-kit';
       const form = type('FormData'), parsed = type('FormData.parse');
       const check = () => {
         const own = type.instanceOf(FormData).and('FormData'), request = type.instanceOf(Request);
         const filled = new FormData();
         filled.append('a', '1');
         const wrong = form({ a: 1 });
         const { held } = type({ held: ['FormData', '=>', (found) => found] }).assert({ held: filled });
         return {
           is: form.allows(filled) && own.allows(filled),
           same: held === filled,
           other: form.allows(new Headers()),
           parsed: parsed(filled),
           request: request.allows(new Request('http://x')),
           wrong: String(wrong),
           wrongClass: String(type.instanceOf(FormData)({ a: 1 })),
         };
       };
       const loads = () => process.moduleLoadList.some((module) => module.includes('deps/undici'));
       export default skill({ name: 'forms', description: 'd', entry: 'a' })
         .step('a', { prompt: () => \`loaded: \${loads()}\`, response: type({ 'v?': 'string' }), save: () => ({ step: { ...check(), loads: loads() } }), next: terminal }).build();`,
    );
    await mustBuild(folder.path, folder.file('forms'));
    const call = async (...args: string[]): Promise<unknown> =>
      JSON.parse((await run(folder.file('forms/scripts/run'), args)).stdout);
    expect(await call('start')).toMatchObject({ prompt: expect.stringContaining('loaded: false') as string });
    expect(await call('advance', '--step', 'a', '--output', '{}')).toMatchObject({
      finalOutput: {
        is: true,
        same: true,
        other: false,
        parsed: { a: '1' },
        request: true,
        wrong: 'must be a FormData instance (was object)',
        wrongClass: 'must be a FormData instance (was object)',
        loads: true,
      },
    });
  });

  it('lint comes first: an error means that nothing is written', async () => {
    using folder = new TemporaryFolder();
    // A definition made by hand, with mistakes that the builders would reject.
    writeFileSync(
      folder.file('skill.mjs'),
      "export default { kind: 'skill', name: 'bare', description: 'd', version: '1.0.0', entry: 'a', steps: { a: { kind: 'step', config: { prompt: 'A', next: 'gone' } } } };",
    );
    const result = await build('skill.mjs', 'bare', [], { cwd: folder.path });
    expect(result).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/"gone" which does not exist[^]*nothing was built/) as string,
    });
    expect(readdirSync(folder.path)).toEqual(['skill.mjs']);
  });

  it('a reference is built, and found from its own folder', async () => {
    using folder = new TemporaryFolder();
    mkdirSync(folder.file('references'));
    writeFileSync(folder.file('references/names.md'), 'Full words.');
    writeFileSync(
      folder.file('skill.ts'),
      `import { reference } from 'voidbox/skill-kit';
       export default reference({ name: 'style', description: 'How we write' }).topic('names', { label: 'Names', content: ({ refs }) => refs.load('names.md') }).build();`,
    );
    await mustBuild(folder.path, folder.file('out/style'));
    expect(await run(folder.file('out/style/scripts/run'), [])).toMatchObject({ code: 0, stdout: 'names: Names\n' });
    expect(await run(folder.file('out/style/scripts/run'), ['topic', 'names'])).toMatchObject({
      code: 0,
      stdout: 'Full words.\n',
    });
  });

  it('one with ArkType checks with it, without zod', async () => {
    using folder = new TemporaryFolder();
    writeFileSync(
      folder.file('skill.ts'),
      `import { skill, terminal, type } from 'voidbox/skill-kit';
       export default skill({ name: 'ark', description: 'd', entry: 'a' }).step('a', { prompt: 'A', response: type({ v: 'string.numeric.parse' }), next: terminal }).build();`,
    );
    await mustBuild(folder.path, folder.file('ark'));
    const advance = (output: string): Promise<Ran> =>
      run(folder.file('ark/scripts/run'), ['advance', '--step', 'a', '--output', output]);
    expect(JSON.parse((await advance('{"v":"12"}')).stdout)).toMatchObject({ kind: 'done', finalOutput: { v: 12 } });
    expect(JSON.parse((await advance('{"v":12}')).stdout)).toMatchObject({
      kind: 'error',
      retry: true,
      message: 'v: v must be a string (was a number)',
    });
  });
});
