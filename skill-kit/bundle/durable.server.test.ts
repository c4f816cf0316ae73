/** Durable sessions of a skill that is run from its source, and of the same skill built. */
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { TemporaryFolder } from '../../test/rig/skills/skill-command.ts';

const BIN = join(findPackageRoot(), 'bin/voidbox.js');
const SKILL = `
  import { skill, terminal, z } from 'voidbox/skill-kit';
  export default skill({ name: 'reader', description: 'Reads.', version: '1.0.0', entry: 'read' })
    .step('read', { prompt: ({ refs }) => refs.load('guide.md'), response: z.object({ n: z.number() }), action: ({ response }) => response.n * 2, next: 'end' })
    .step('end', { prompt: ({ store }) => 'Got ' + store.steps.read, response: z.object({ text: z.string() }), next: terminal })
    .build();
`;

let folder: TemporaryFolder;
beforeAll(() => {
  folder = new TemporaryFolder();
  mkdirSync(folder.file('source/references'), { recursive: true });
  writeFileSync(folder.file('source/skill.ts'), SKILL);
  writeFileSync(folder.file('source/references/guide.md'), 'The guide.');
});
afterAll(async () => {
  for (const state of ['ran', 'built', 'before', 'both']) await run(state, process.execPath, [BIN, 'down']);
  folder[Symbol.dispose]();
});

function run(state: string, program: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, VOIDBOX_STATE_DIR: folder.file(state), VOIDBOX_BIN: BIN };
    execFile(program, [...args], { cwd: folder.path, env, timeout: 110_000 }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`${program} ${args.join(' ')}: ${stderr}`));
    });
  });
}

it.each(['ran', 'built'])('continue from call to call, and name a file that stays: %s', async (how) => {
  if (how === 'built') await run(how, process.execPath, [BIN, 'skill', 'build', 'source', '-o', 'reader']);
  const source = folder.file(how === 'built' ? 'reader/bin/reader.cjs' : 'source/skill.ts');
  const call = async (...args: string[]): Promise<Record<string, unknown>> => {
    const stdout =
      how === 'built'
        ? await run(how, folder.file('reader/scripts/run'), args)
        : await run(how, process.execPath, [BIN, 'skill', 'run', 'source', ...args]);
    return JSON.parse(stdout) as Record<string, unknown>;
  };
  const { session, ...first } = await call('start', '--durable');
  expect(first).toMatchObject({ step: 'read', prompt: '<prompt>\nThe guide.\n</prompt>' });
  expect(JSON.parse(readFileSync(folder.file(`${how}/skills.json`), 'utf8'))).toEqual({ paths: [source] });
  const advance = (step: string, output: unknown): Promise<Record<string, unknown>> =>
    call('advance', '--session', session as string, '--step', step, '--output', JSON.stringify(output));
  expect(await advance('read', { n: 21 })).toMatchObject({ step: 'end', prompt: '<prompt>\nGot 42\n</prompt>' });
  expect(await advance('end', { text: 'done' })).toMatchObject({ kind: 'done', finalOutput: { text: 'done' } });
  await run(how, process.execPath, [BIN, 'down']);
  rmSync(folder.file(how), { recursive: true });
});

it(
  'a built skill beside its registered source: each starts its own code, and a start by name asks which',
  { timeout: 240_000 },
  async () => {
    const voidbox = (...args: string[]): Promise<string> => run('both', process.execPath, [BIN, ...args]);
    const startOf = async (program: string): Promise<string> =>
      (JSON.parse(await run('both', program, ['start', '--durable'])) as { readonly session: string }).session;
    const codeOf = async (session: string): Promise<string> =>
      (JSON.parse(await voidbox('session', 'status', session, '--json')) as { readonly codeHash: string }).codeHash;
    const paths = (): unknown =>
      (JSON.parse(readFileSync(folder.file('both/skills.json'), 'utf8')) as { readonly paths: unknown }).paths;
    rmSync(folder.file('reader'), { recursive: true, force: true });
    await voidbox('skill', 'build', 'source', '-o', 'reader');

    const first = JSON.parse(await voidbox('session', 'start', 'reader', '--skills', 'source', '--json')) as {
      readonly session: string;
    };
    const source = await codeOf(first.session);
    const built = await codeOf(await startOf(folder.file('reader/scripts/run')));
    expect(built).not.toBe(source);
    expect(paths()).toEqual([folder.file('source'), folder.file('reader/bin/reader.cjs')]);

    // The same code once more, from another place, is the same entry.
    cpSync(folder.file('reader'), folder.file('copied/reader'), { recursive: true });
    expect(await codeOf(await startOf(folder.file('copied/reader/scripts/run')))).toBe(built);
    expect(paths()).toEqual([folder.file('source'), folder.file('reader/bin/reader.cjs')]);

    const asked = await voidbox('session', 'start', 'reader').catch((error: Error) => error.message);
    expect(asked).toContain('2 different codes are loaded as skill "reader"');
    for (const [hash, entry] of [[source, 'source/skill.ts'] as const, [built, 'reader/bin/reader.cjs'] as const])
      expect(asked).toContain(`${hash.slice(0, 12)}  version 1.0.0, ${folder.file(entry)}`);
    expect(asked).toContain('session start NAME --code HASH');
    const chosen = JSON.parse(await voidbox('session', 'start', 'reader', '--code', built.slice(0, 12), '--json')) as {
      readonly session: string;
    };
    expect(await codeOf(chosen.session)).toBe(built);
    await expect(voidbox('session', 'start', 'reader', '--code', 'not-a-hash')).rejects.toThrow(
      '--code is `not-a-hash`',
    );

    // A built folder is a folder of a skill.
    await voidbox('up', '--skills', 'reader');
    expect(paths()).toEqual([folder.file('reader')]);
    const alone = JSON.parse(await voidbox('session', 'start', 'reader', '--json')) as { readonly session: string };
    expect(await codeOf(alone.session)).toBe(built);
    expect(await codeOf(await startOf(folder.file('reader/scripts/run')))).toBe(built);
    expect(paths()).toEqual([folder.file('reader')]);
  },
);
