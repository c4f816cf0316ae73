/** Durable sessions of a skill that is run from its source, and of the same skill built. */
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { packageRoot } from '../../../setup/package-root.ts';
import { TemporaryFolder } from '../../../test/rig/skill-command.ts';

const BIN = join(packageRoot(), 'bin/voidbox.js');
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
  for (const state of ['ran', 'built']) await run(state, process.execPath, [BIN, 'down']);
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

it.each(['ran', 'built'])('go on from call to call, and name a file that stays: %s', async (how) => {
  if (how === 'built') await run(how, process.execPath, [BIN, 'skill', 'build', 'source', '-o', 'reader']);
  const source = folder.file(how === 'built' ? 'reader/bin/reader.cjs' : 'source/skill.ts');
  const call = async (...args: string[]): Promise<Record<string, unknown>> => {
    const stdout =
      how === 'built' ? await run(how, folder.file('reader/scripts/run'), args) : await run(how, process.execPath, [BIN, 'skill', 'run', 'source', ...args]);
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
