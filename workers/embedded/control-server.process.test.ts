import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { openControl } from './control-server.ts';

test('a state folder that is gone is told once, and ends nothing', async () => {
  const stateDir = mkdtempSync(join(tmpdir(), 'voidbox-control-'));
  const problems: string[] = [];
  const answer = (): never => {
    throw new Error('nobody asks');
  };
  const control = await openControl({ stateDir, answer, onProblem: (message) => problems.push(message) });
  rmSync(stateDir, { recursive: true });
  await sleep(1_800);
  control.close();
  expect(problems).toEqual([expect.stringContaining('stack.sock')]);
});
