import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadDefinition, type LoadedDefinition } from '../../sdk/load/load-definition.ts';
import { REPLY_LIMIT_BYTES } from '../../sdk/load/reply.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-definitions-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function load(text: string, limitMs: number): Promise<LoadedDefinition> {
  const entry = join(folder, 'x.ts');
  writeFileSync(entry, text);
  return await loadDefinition(entry, {
    roots: [dirname(entry)],
    params: {},
    settings: null,
    variables: process.env,
    shown: (path) => path,
    limitMs,
  });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // An ended process stays a zombie until its parent waits for it.
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

test('code that never ends is killed, with the processes that it started', async () => {
  const { plan, diagnostics } = await load(
    `import { spawn } from 'node:child_process';
     import { writeFileSync } from 'node:fs';
     const { pid } = spawn('sleep', ['600'], { stdio: 'inherit' });
     writeFileSync(${JSON.stringify(join(folder, 'pids'))}, process.pid + ' ' + pid);
     for (;;);`,
    3_000,
  );
  expect(plan).toBeNull();
  expect(diagnostics).toMatchObject([{ code: 'spec/definition', message: 'the definition was not loaded within 3 s' }]);
  const pids = readFileSync(join(folder, 'pids'), 'utf8').split(' ').map(Number);
  expect(pids).toHaveLength(2);
  expect(pids.filter(isAlive)).toEqual([]);
});

test('a definition larger than what is read of it is refused', async () => {
  const { diagnostics } = await load(
    `import { defineWorkflow, step } from 'voidbox';
     export default defineWorkflow({ name: 'x', steps: [step('a', ['echo', 'x'.repeat(${REPLY_LIMIT_BYTES})])] });`,
    30_000,
  );
  expect(diagnostics).toMatchObject([
    { code: 'spec/definition', message: `the definition returns a spec with more than ${REPLY_LIMIT_BYTES} bytes` },
  ]);
});

test('a definition whose spec is larger than specs may be is one of that size', async () => {
  const { diagnostics } = await load(
    `import { defineWorkflow, step } from 'voidbox';
     export default defineWorkflow({ name: 'x', steps: [step('a', ['echo', 'x'.repeat(2_000_000)])] });`,
    30_000,
  );
  expect(diagnostics).toMatchObject([{ code: 'spec/too-large', line: 2 }]);
});
