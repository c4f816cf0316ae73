import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { SkillProcess } from './skill-process.ts';

/** Answers as a child does, and prints what it was handed. */
const CHILD = `
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
const answer = (value) => writeSync(3, JSON.stringify(value) + '\\n');
createInterface({ input: process.stdin }).on('line', (line) => {
  const { variables } = JSON.parse(line);
  console.log(variables.HOME + '/notes of ' + variables.TOKEN);
  answer({ ok: null });
});
answer({ hello: { name: 's', version: '1.0.0', env: [] } });
`;

test('lines of a process show base variables that its skill declares, and not the other ones', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-skill-process-'));
  const script = join(dir, 'child.mjs');
  writeFileSync(script, CHILD);
  const lines: string[] = [];
  const child = new SkillProcess({
    script,
    bundle: 'none',
    codeHash: '0',
    env: {},
    onLine: (line) => lines.push(line),
  });
  onTestFinished(() => {
    child.end('the test is over', false);
    rmSync(dir, { recursive: true });
  });
  await child.request(
    {
      op: 'observe',
      path: [],
      event: {} as never,
      recordsDir: dir,
      variables: { HOME: '/home/of-somebody', TOKEN: 'canary-5d21-value' },
    },
    20_000,
  );
  await expect.poll(() => lines, { timeout: 20_000 }).toEqual(['/home/of-somebody/notes of [redacted]']);
});
