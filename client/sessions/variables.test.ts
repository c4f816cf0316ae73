import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { handOverDuring } from './variables.ts';

test('values that cannot be passed are reported, and neither the command nor the start fails', async () => {
  const stateDir = mkdtempSync(join(tmpdir(), 'voidbox-hand-over-'));
  onTestFinished(() => rmSync(stateDir, { recursive: true }));
  writeFileSync(join(stateDir, 'sessions'), 'no folder');
  const told: string[] = [];
  const started = handOverDuring(
    { stateDir, variables: {}, undecodable: [] },
    { session: 'first', opener: 'me' },
    (line) => told.push(line),
    () => sleep(200, 'started'),
  );
  expect(await started).toBe('started');
  expect(told).toEqual([expect.stringMatching(/^no variables can be passed: ENOTDIR/)]);
});
