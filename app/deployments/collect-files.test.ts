import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { compileText } from '../../domain/language/load.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { generateTar, PACK_LIMITS } from '../control/pack-folder.ts';
import { collectFiles } from './collect-files.ts';

let dir: string;
let specDir: string;
beforeAll(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-collect-')));
  specDir = join(dir, 'repo/specs');
  for (const name of ['repo/.git', 'repo/specs/data/deep', 'repo/specs/other', 'repo/shared', 'outside'])
    mkdirSync(join(dir, name), { recursive: true });
  for (const name of ['repo/.git/config', 'repo/specs/data/deep/x', 'repo/specs/other/secret', 'repo/shared/part.yaml'])
    writeFileSync(join(dir, name), name);
  symlinkSync('../../outside', join(specDir, 'away'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function planOf(...mounts: readonly string[]): Plan {
  const text = mounts.map((host, at) => `{ host: "${host}", guest: /m${at} }`).join(', ');
  const { plan, diagnostics } = compileText(
    `kind: workflow\nname: a\nsandbox: { mounts: [${text}] }\nworkflow: { steps: [{ name: a, run: ls }] }\n`,
    'x.yaml',
    { baseDir: specDir },
  );
  if (plan === null) throw new Error(JSON.stringify(diagnostics));
  return plan;
}

async function listPacked(plan: Plan, read: readonly string[] = [], allowed: readonly string[] = []) {
  const files = collectFiles(plan, read, { baseDir: specDir, allowed });
  const parts: Buffer[] = [];
  for await (const piece of generateTar(files.root, PACK_LIMITS, files.isPacked)) parts.push(Buffer.from(piece));
  const text = Buffer.concat(parts).toString('latin1');
  return { ...files, has: (name: string) => text.includes(`${name}\0`) };
}

test('only the files that the spec names are packed, from its folder', async () => {
  const packed = await listPacked(planOf('data'));
  expect([packed.root, packed.specDir, packed.hasFiles]).toEqual([specDir, '', true]);
  expect(packed.has('data/deep/x')).toBe(true);
  expect(packed.has('other/secret')).toBe(false);
});

test('a part beside the folder of the spec moves the top to the folder that has both', async () => {
  const packed = await listPacked(planOf('data'), [join(dir, 'repo/shared/part.yaml')]);
  expect([packed.root, packed.specDir]).toEqual([join(dir, 'repo'), 'specs']);
  expect(['shared/part.yaml', 'specs/data/deep/x'].map(packed.has)).toEqual([true, true]);
  expect(['.git/config', 'specs/other/secret'].map(packed.has)).toEqual([false, false]);
});

test('a spec without files needs no upload', async () => {
  expect((await listPacked(planOf())).hasFiles).toBe(false);
});

test.each(['../../outside', '/etc', 'away'])('a mount of %s, outside of the repository, is refused', (mount) => {
  expect(() => collectFiles(planOf(mount), [], { baseDir: specDir, allowed: [] })).toThrow(
    expect.objectContaining({ code: 'cli/not-remote', remedy: expect.stringContaining('--allow-mounts') }),
  );
});

test('a folder that the owner allowed is mounted from the host, and is not packed', async () => {
  const outside = join(dir, 'outside');
  const packed = await listPacked(planOf(outside, 'data'), [], [outside]);
  expect(packed.root).toBe(specDir);
  expect((await listPacked(planOf(outside), [], [outside])).hasFiles).toBe(false);
});
