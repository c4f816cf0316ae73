import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { rolldown } from 'rolldown';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const run = promisify(execFile);
/** A skill, run as far as its schema needs: what it imports is what a built skill would hold. */
const skillWith = (library: 'z' | 'type', schema: string): string => `
  import { skill, terminal, ${library} } from 'voidbox/skill-kit';
  const built = skill({ name: 's', entry: 'a' }).step('a', { prompt: 'A', response: ${schema}, next: terminal }).build();
  process.stdout.write(JSON.stringify(built.steps.a.config.response['~standard'].validate({ v: 'x' })));
`;
const ZOD = skillWith('z', 'z.object({ v: z.string() })');
const ARKTYPE = skillWith('type', "type({ v: 'string' })");
const NEITHER = skillWith(
  'z',
  "{ '~standard': { version: 1, vendor: 'own', validate: (value) => ({ value }) } }",
).replace(', z }', ' }');

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'voidbox-libraries-'));
});
afterEach(() => rm(folder, { recursive: true }));

/** The libraries whose scripts the engine has executed, by its own coverage record. */
async function loadedBy(code: string): Promise<{ stdout: string; stderr: string; libraries: string[] }> {
  const { stdout, stderr } = await run(process.execPath, ['--input-type=module', '-e', code], {
    cwd: ROOT,
    env: { PATH: process.env['PATH'], NODE_V8_COVERAGE: folder },
  });
  const [file = ''] = await readdir(folder);
  const { result } = JSON.parse(await readFile(join(folder, file), 'utf8')) as { result: { url: string }[] };
  expect(result.some(({ url }) => url.endsWith('/dist/skill-kit/index.js'))).toBe(true);
  return { stdout, stderr, libraries: librariesIn(result.map(({ url }) => url)) };
}

function librariesIn(paths: readonly string[]): string[] {
  return ['arktype', 'rolldown', 'zod'].filter((library) =>
    paths.some((path) => path.includes(`/node_modules/${library}/`)),
  );
}

async function bundled(code: string): Promise<{ code: string; libraries: string[] }> {
  const entry = join(ROOT, 'bundled-skill.js');
  const bundle = await rolldown({
    input: entry,
    platform: 'node',
    plugins: [
      { name: 'skill', resolveId: (id) => (id === entry ? id : null), load: (id) => (id === entry ? code : null) },
    ],
  });
  const { output } = await bundle.generate({ format: 'esm' });
  await bundle.close();
  expect(output).toHaveLength(1);
  return { code: output[0].code, libraries: librariesIn(output[0].moduleIds) };
}

describe('a skill pays for the schema library that it uses', () => {
  it.each([
    ['zod', ZOD, ['zod']],
    ['ArkType', ARKTYPE, ['arktype']],
    ['neither', NEITHER, []],
  ])('%s in plain Node', async (_name, code, libraries) => {
    expect(await loadedBy(code)).toEqual({ stdout: '{"value":{"v":"x"}}', stderr: '', libraries });
  });

  it.each([
    ['zod', ZOD, ['zod']],
    ['ArkType', ARKTYPE, ['arktype']],
    ['neither', NEITHER, []],
  ])('%s in a bundle', async (_name, code, libraries) => {
    const made = await bundled(code);
    expect(made.libraries).toEqual(libraries);
    // Nothing is left to be found in node_modules when it runs.
    const file = join(folder, 'skill.mjs');
    await writeFile(file, made.code);
    expect((await run(process.execPath, [file])).stdout).toBe('{"value":{"v":"x"}}');
  });
});

it('a command line in a bundle holds no Temporal client, although it can keep durable sessions', async () => {
  const entry = join(ROOT, 'bundled-command.js');
  const code = `import { main } from 'voidbox/skill-kit/cli'; import { skill } from 'voidbox/skill-kit'; await main(skill({ name: 's', entry: 'a' }).build());`;
  const bundle = await rolldown({
    input: entry,
    platform: 'node',
    plugins: [
      { name: 'skill', resolveId: (id) => (id === entry ? id : null), load: (id) => (id === entry ? code : null) },
    ],
  });
  const { output } = await bundle.generate({ format: 'esm' });
  await bundle.close();
  const modules = output.flatMap((one) => (one.type === 'chunk' ? one.moduleIds : []));
  expect(modules.some((id) => id.endsWith('skill-kit/durable/find-voidbox.js'))).toBe(true);
  expect(modules.filter((id) => id.includes('@temporalio') || /\/dist\/(workers|cli|workflows)\//.test(id))).toEqual(
    [],
  );
});

it('a definition is checked without the parser that lint reads its source with', async () => {
  const looping = `skill({ name: 's', entry: 'a' }).step('a', { prompt: 'A', next: 'self' }).build()`;
  const code = `import { checkSkill, skill } from 'voidbox/skill-kit'; console.log(checkSkill(${looping})[0].rule);`;
  expect(await loadedBy(code)).toEqual({ stdout: 'cycle-guard\n', stderr: '', libraries: [] });
});

it("z and type are the libraries' own", async () => {
  const { stdout } = await loadedBy(`
    import { type, z } from 'voidbox/skill-kit';
    import { type as arkType } from 'arktype';
    import { z as zod } from 'zod';
    const failed = type({ v: 'string' })({ v: 1 });
    console.log(JSON.stringify([
      z.object === zod.object, type.string === arkType.string, failed instanceof type.errors, failed instanceof arkType.errors,
      z.object({}) instanceof zod.ZodObject, z.object({}) instanceof z.ZodObject, 'enumerated' in type, typeof type, Object.keys(z).length === Object.keys(zod).length,
    ]));
  `);
  expect(JSON.parse(stdout)).toEqual([true, true, true, true, true, true, true, 'function', true]);
});

it('both doors export the same names', async () => {
  const script = (door: string): string =>
    `import * as door from './dist/skill-kit/${door}.js'; console.log(Object.keys(door).sort().join(' '));`;
  const [plain, forBundlers] = await Promise.all(
    ['index', 'index.bundled'].map(async (door) =>
      (await run(process.execPath, ['--input-type=module', '-e', script(door)], { cwd: ROOT })).stdout.trim(),
    ),
  );
  expect(plain).toBe(
    'ModuleBuilder ReferenceBuilder SkillBuilder act action checkSkill fragment isDone isError isPrompt isRedirect module prompt reference render resolveTemplate skill step system terminal type view z',
  );
  expect(forBundlers).toBe(plain);
});

it('types: the skills of store-types.test.ts compile, and what is marked as an error is one', async () => {
  const project = join(folder, 'tsconfig.json');
  const compilerOptions = {
    noEmit: true,
    composite: false,
    incremental: false,
    allowImportingTsExtensions: true,
    types: ['node'],
    typeRoots: [join(ROOT, 'node_modules/@types')],
  };
  await writeFile(
    project,
    JSON.stringify({
      extends: join(ROOT, 'tsconfig.base.json'),
      compilerOptions,
      files: [join(ROOT, 'skill-kit/author/store-types.test.ts')],
    }),
  );
  const tsc = run(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', project], { cwd: folder });
  expect(await tsc.catch((error: unknown) => (error as { stdout: string }).stdout)).toMatchObject({
    stdout: '',
    stderr: '',
  });
});
