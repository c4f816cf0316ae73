/** `voidbox skill run`: the command line of a built skill, without building it. */
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { TemporaryFolder, type Ran } from '../../test/rig/skills/skill-command.ts';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));
const SKILL = `
  import { skill, terminal, z } from 'voidbox/skill-kit';
  export default skill({ name: 'reader', resolveVersion: true, entry: 'read' })
    .step('read', { prompt: ({ refs }) => refs.load('guide.md'), response: z.object({ text: z.string() }), next: 'end' })
    .step('end', { prompt: 'End.', next: terminal })
    .topic('guide', { label: 'The guide', content: ({ refs }) => refs.load('guide.md') })
    .build();
`;

let folder: TemporaryFolder;
beforeEach(() => {
  folder = new TemporaryFolder();
  mkdirSync(folder.file('source/references'), { recursive: true });
  mkdirSync(folder.file('tmp'));
  writeFileSync(folder.file('source/skill.ts'), SKILL);
  writeFileSync(folder.file('source/package.json'), '{ "version": "3.1.0" }');
  writeFileSync(folder.file('source/references/guide.md'), 'The guide.');
});
afterEach(() => {
  chmodSync(folder.file('source'), 0o755);
  folder[Symbol.dispose]();
});

const run = (...args: readonly string[]): Promise<Ran> => fed('', ...args);

function fed(stdin: string, ...args: readonly string[]): Promise<Ran> {
  return new Promise((resolve) => {
    const env = { ...process.env, TMPDIR: folder.file('tmp') };
    const child = execFile(
      process.execPath,
      [BIN, 'skill', 'run', 'source', ...args],
      { cwd: folder.path, env },
      (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
      },
    );
    child.stdin!.end(stdin);
  });
}

it('runs from a folder that cannot be written, reads references there, and leaves nothing behind', async () => {
  chmodSync(folder.file('source'), 0o555);
  const { code, stdout } = await run('start');
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ kind: 'prompt', step: 'read', prompt: '<prompt>\nThe guide.\n</prompt>' });
  expect(await run('topic', 'guide')).toEqual({ code: 0, stdout: 'The guide.\n', stderr: '' });
  expect(readdirSync(folder.file('tmp'))).toEqual([]);
  expect(readdirSync(folder.file('source')).toSorted()).toEqual(['package.json', 'references', 'skill.ts']);
});

it('continues a session while the source is the same, and refuses it when that has changed', async () => {
  const started = JSON.parse((await run('start', '--session', 'new')).stdout) as { sessionId: string; file: string };
  expect(JSON.parse(readFileSync(started.file, 'utf8').split('\n')[0]!)).toMatchObject({ skill: 'reader' });
  const advance = ['advance', '--session', started.sessionId, '--step', 'read', '--output', '{"text":"a"}'];
  expect(await run(...advance)).toMatchObject({ code: 0, stdout: '4\n' });
  writeFileSync(folder.file('source/skill.ts'), SKILL.replace("'End.'", "'The end.'"));
  const { code, stderr } = await run('advance', '--session', started.sessionId, '--step', 'end', '--output', '{}');
  expect(code).toBe(1);
  expect(stderr).toContain('other code of version 3.1.0');
});

it('takes CommonJS that looks for files beside it', async () => {
  writeFileSync(
    folder.file('source/part.cjs'),
    "const { join } = require('node:path'); module.exports = [join(__dirname, 'x'), __filename];",
  );
  const code = "import part from './part.cjs'; const __dirname = 'own';".concat(
    SKILL.replace("refs.load('guide.md')", "[...part, __dirname].join(' ')"),
  );
  writeFileSync(folder.file('source/skill.ts'), code);
  const { stdout, stderr } = await run('start');
  expect(stderr).toBe('');
  expect((JSON.parse(stdout) as { prompt: string }).prompt).toMatch(
    /voidbox-source-(\w+)\/x \S+voidbox-source-\1\/skill\.mjs own/,
  );
});

it('what is printed while it is loaded is no part of the answer, nor of a protocol', async () => {
  writeFileSync(folder.file('source/skill.ts'), `console.log('loading'); ${SKILL}`);
  const { stdout, stderr } = await run('start');
  expect(stderr).toBe('loading\n');
  expect(JSON.parse(stdout)).toMatchObject({ kind: 'prompt' });
  const hello = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
  const served = await fed(
    `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: hello })}\n`,
    'mcp',
  );
  expect(served).toEqual({
    code: 0,
    stdout: expect.stringMatching(/^\{.*"serverInfo".*\}\n$/) as string,
    stderr: 'loading\n',
  });
});

it("passes flags on, and leaves with the skill's exit code", async () => {
  expect(await run('--help')).toMatchObject({ code: 0, stderr: expect.stringMatching(/^reader 3\.1\.0/) as string });
  expect(await run('advance', '--json')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('unknown flag --json') as string,
  });
  expect(await run('start', '--subskill', 'none')).toMatchObject({ code: 2 });
});

it('says where a skill that does not load went wrong, in its source', async () => {
  writeFileSync(
    folder.file('source/skill.ts'),
    "const name: string = 'x';\n\nthrow new Error(`not ${name}`);\nexport default name;\n",
  );
  const { code, stderr } = await run('start');
  expect(code).toBe(2);
  expect(stderr).toMatch(/^error: .*source\/skill\.ts fails when it is loaded: not x\n +at .*source\/skill\.ts:3/);
});

it.each([
  [
    'has mistakes',
    SKILL.replace("next: 'end'", "next: 'gone'"),
    /^error: .*skill\.ts fails when it is loaded: skill "reader": .*"gone".*\n$/,
  ],
  ['exports something else', 'export default 5;', /^error: the entry has a default export that is not a built skill/],
  [
    'waits for ever',
    `await new Promise(() => undefined);${SKILL}`,
    /^error: .*skill\.ts fails when it is loaded: it waits for something that never comes/,
  ],
])('a skill that %s is a mistake of its author, and no crash', async (_what, code, message) => {
  writeFileSync(folder.file('source/skill.ts'), code);
  expect(await run('start')).toEqual({ code: 2, stdout: '', stderr: expect.stringMatching(message) as string });
});

it.each([
  ['extends a file that is missing', '{ "extends": "./missing.json" }', "Failed to load tsconfig 'missing.json'"],
  ['does not parse', '{ broken', "Failed to load tsconfig 'tsconfig.json'"],
])('a tsconfig.json that %s is the only mistake that run names', async (_what, text, expected) => {
  writeFileSync(folder.file('source/tsconfig.json'), text);
  const { code, stderr } = await run('start');
  expect(code).toBe(2);
  expect(stderr).toContain(`skill.ts cannot be bundled: ${expected}`);
  expect(stderr).toContain('correct it, or remove `extends`');
  expect(stderr).not.toContain('Could not resolve');
});
