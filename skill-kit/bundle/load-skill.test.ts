import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { SkillDefinition } from '../../domain/step-machine/definition.ts';
import { TemporaryFolder } from '../../test/rig/skills/skill-command.ts';
import { loadSkill } from './load-skill.ts';

const GREETER = `
  import { skill, terminal, z } from 'voidbox/skill-kit';
  import { NAME } from './name.ts';
  const Answer: z.ZodType<{ text: string }> = z.object({ text: z.string() });
  export default skill({ name: NAME, entry: 'greet' }).step('greet', { prompt: 'Greet.', response: Answer, next: terminal }).build();
`;

let folder: TemporaryFolder;
beforeEach(() => {
  folder = new TemporaryFolder();
});
afterEach(() => folder[Symbol.dispose]());

function put(name: string, code: string): string {
  const file = folder.file(name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, code);
  return file;
}

describe('loading a skill from its source', () => {
  it.each(['skill.ts', 'index.ts'])('takes the file, or its folder with %s', async (name) => {
    const entry = put(name, GREETER);
    put('name.ts', "export const NAME = 'greeter';");
    // Other tests load skills at the same time.
    mkdirSync(folder.file('tmp'));
    vi.stubEnv('TMPDIR', folder.file('tmp'));
    onTestFinished(() => void vi.unstubAllEnvs());
    for (const path of [entry, folder.path]) {
      const loaded = await loadSkill(path);
      expect(loaded).toMatchObject({ definition: { kind: 'skill', name: 'greeter' }, entry, folder: folder.path });
      expect(loaded.modules).toEqual(expect.arrayContaining([entry, folder.file('name.ts')]));
      expect(loaded.bundle).toContain('"greeter"');
    }
    expect(readdirSync(tmpdir())).toEqual([]);
  });

  it('looks beside the file that a link leads to, for what it imports and for its references', async () => {
    const entry = put('real/skill.ts', GREETER);
    put('real/name.ts', "export const NAME = 'greeter';");
    mkdirSync(folder.file('links'));
    symlinkSync('../real/skill.ts', folder.file('links/skill.ts'));
    for (const path of ['links/skill.ts', 'links']) {
      expect(await loadSkill(folder.file(path))).toMatchObject({
        definition: { name: 'greeter' },
        entry,
        folder: folder.file('real'),
      });
    }
  });

  it('prefers skill.ts, and takes a path from the folder that it is typed in', async () => {
    put('one/skill.ts', GREETER.replace('NAME,', "'of-skill',").replace(/.*name\.ts.*/, ''));
    put('one/index.ts', 'throw new Error("not this one")');
    expect((await loadSkill('one', folder.path)).definition.name).toBe('of-skill');
  });

  it('writes syntax that is newer than the oldest Node in the words of that one', async () => {
    const code = GREETER.replace("'Greet.'", 'greeting()').replace(/.*name\.ts.*/, "const NAME = 'n';");
    const held = "function greeting() { using held = { text: 'Hello.', [Symbol.dispose]() {} }; return held.text; }";
    const { bundle, definition } = await loadSkill(put('skill.ts', `${code}\n${held}`));
    expect(bundle).not.toMatch(/using held/);
    expect((definition as SkillDefinition).steps['greet']?.config.prompt).toBe('Hello.');
  });

  it('loads what has changed since', async () => {
    const entry = put('skill.mjs', GREETER.replace(': z.ZodType<{ text: string }>', ''));
    for (const name of ['first', 'second']) {
      put('name.ts', `export const NAME = '${name}';`);
      expect((await loadSkill(entry)).definition.name).toBe(name);
    }
  });

  it('tells CommonJS and ES modules alike where they are, whatever they call it', async () => {
    put('node_modules/old/package.json', '{ "name": "old", "main": "index.js" }');
    put('node_modules/old/index.js', 'exports.place = __dirname + "|" + require("node:path").basename(__filename);');
    const entry = put(
      'skill.ts',
      `import { dirname } from 'node:path';
       import { fileURLToPath } from 'node:url';
       import { skill, terminal } from 'voidbox/skill-kit';
       import { place } from 'old';
       const __filename = fileURLToPath(import.meta.url);
       export default skill({ name: 'placed', entry: 'a' }).step('a', { prompt: \`\${place} \${dirname(__filename)}|\`, next: terminal }).build();`,
    );
    const { definition } = await loadSkill(entry);
    const prompt = definition.kind === 'skill' ? definition.steps['a']?.config.prompt : undefined;
    expect(prompt).toMatch(/^(.+)\|skill\.mjs \1\|$/);
  });

  it('runs nothing of an entry that is a program as well', async () => {
    const entry = put(
      'skill.ts',
      `${GREETER.replace('export default', 'const greeter =')
        .replace('NAME,', "'both',")
        .replace(/.*name\.ts.*/, '')}
      import { main } from 'voidbox/skill-kit/cli';
      export default greeter;
      await main(greeter);`,
    );
    expect((await loadSkill(entry)).definition.name).toBe('both');
  });

  it('loads a reference', async () => {
    const code =
      "import { reference } from 'voidbox/skill-kit'; export default reference({ name: 'r', description: 'd' }).topic('t', { label: 'T', content: () => 'x' }).build();";
    expect((await loadSkill(put('skill.ts', code))).definition).toMatchObject({ kind: 'reference', name: 'r' });
  });

  it.each([
    ['there is nothing', 'none.ts', null, 'skill/not-found', /none\.ts does not exist/],
    ['it is no code', 'skill.md', 'x', 'skill/not-found', /skill\.md is not a TypeScript or JavaScript file/],
    ['it does not parse', 'skill.ts', 'export default {\n  a: ;\n}', 'skill/unusable', /skill\.ts:2:6: /],
    [
      'a file that it imports is missing',
      'skill.ts',
      "\nimport x from './x.ts';\nexport default x;",
      'skill/unusable',
      /skill\.ts:2:\d+: .*\.\/x\.ts/,
    ],
    [
      'a package that it imports is missing',
      'skill.ts',
      "import x from 'no-such-package';\nexport default x;",
      'skill/unusable',
      /skill\.ts:1:\d+: .*no-such-package/,
    ],
    ['it throws', 'skill.ts', "throw new Error('not today');", 'skill/unusable', /fails when it is loaded: not today/],
    [
      'it has mistakes',
      'skill.ts',
      GREETER.replace("'greet' }", "'gone' }").replace(/.*name\.ts.*/, "const NAME = 'n';"),
      'skill/unusable',
      /"gone" not found/,
    ],
    [
      'it exports nothing by default',
      'skill.ts',
      'export const a = 1;',
      'skill/unusable',
      /no default export \(it exports a\)/,
    ],
    [
      'it is not built',
      'skill.ts',
      "import { skill } from 'voidbox/skill-kit'; export default skill({ name: 'n', entry: 'a' });",
      'skill/unusable',
      /`\.build\(\)` is missing/,
    ],
    [
      'it is something else',
      'skill.ts',
      'export default { steps: {} };',
      'skill/unusable',
      /not a built skill or reference/,
    ],
  ])('says what is wrong when %s', async (_when, name, code, errorCode, message) => {
    if (code !== null) put(name, code);
    await expect(loadSkill(folder.file(name))).rejects.toMatchObject({
      code: errorCode,
      message: expect.stringMatching(message) as string,
    });
  });

  it('rejects a path below a file', async () => {
    const entry = put('skill.ts', GREETER);
    await expect(loadSkill(join(entry, 'more'))).rejects.toMatchObject({
      code: 'skill/not-found',
      message: expect.stringMatching(/ENOTDIR|does not exist/) as string,
    });
  });

  it('says what a folder would have to hold', async () => {
    await expect(loadSkill(join(folder.path))).rejects.toMatchObject({
      code: 'skill/not-found',
      message: expect.stringContaining('must have one of skill.ts') as string,
    });
  });
});
