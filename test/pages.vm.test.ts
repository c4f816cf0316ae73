/** Every command of the first pages and the guides runs as a reader types it, in an empty folder. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { packageRoot } from '../setup/package-root.ts';
import { BIN, Rig } from './e2e/rig.ts';
import { readPageParts } from './rig/pages.ts';
import { endRig } from './rig/runs/examples.ts';

const ROOT = packageRoot();
const PAGES = ['docs/start', 'docs/guides'].flatMap((folder) =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`),
);

let rig: Rig;
let bin: string;
beforeAll(() => {
  rig = new Rig();
  bin = join(rig.specDir, 'bin');
  mkdirSync(bin);
  symlinkSync(BIN, join(bin, 'voidbox'));
});
afterAll(() => endRig(rig));

test.each(PAGES)('the commands of %s succeed', { timeout: 600_000 }, async (path) => {
  const home = mkdtempSync(join(rig.specDir, 'page-'));
  let cwd = home;
  for (const part of readPageParts(path, readFileSync(join(ROOT, path), 'utf8'))) {
    if (part.kind === 'not-run') continue;
    if (part.kind === 'file') {
      mkdirSync(dirname(join(cwd, part.path)), { recursive: true });
      writeFileSync(join(cwd, part.path), part.text);
      continue;
    }
    for (const command of part.commands) {
      const { code, output } = await runInShell(`${command}\npwd > ${join(home, '.cwd')}`, cwd);
      expect(code, `${path}:${part.line}: ${command}\n${output}`).toBe(0);
      cwd = readFileSync(join(home, '.cwd'), 'utf8').trim();
    }
  }
});

async function runInShell(script: string, cwd: string): Promise<{ readonly code: number; readonly output: string }> {
  return await new Promise((resolve) => {
    const child = execFile(
      'bash',
      ['-euc', script],
      { cwd, env: { ...rig.env, PATH: `${bin}:${process.env['PATH']}` }, maxBuffer: 32 * 1024 * 1024 },
      (_error, stdout, stderr) => resolve({ code: child.exitCode ?? 1, output: `${stdout}\n${stderr}` }),
    );
  });
}
