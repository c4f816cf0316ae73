import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createFileRunRecords, type FileRunRecords } from '../store/file/run-records.ts';
import { RunExistsError } from '../client/runs.ts';
import { handOver } from './hand-over.ts';

let stateDir: string;
let records: FileRunRecords;
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-hand-over-'));
  records = createFileRunRecords(stateDir);
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

it('has the variables in place when the run starts', async () => {
  let seen: unknown = null;
  await handOver(records, 'a-run', { TOKEN: 'x' }, async () => {
    seen = await records.hostVariables('a-run');
  });
  expect(seen).toEqual({ TOKEN: 'x' });
  expect(await records.hostVariables('a-run')).toEqual({ TOKEN: 'x' });
});

it('takes them back when the run was not started', async () => {
  await expect(
    handOver(records, 'a-run', { TOKEN: 'x' }, () => Promise.reject(new Error('no server'))),
  ).rejects.toThrow('no server');
  expect(await records.hostVariables('a-run')).toEqual({});
});

it('leaves those of the run that has the id', async () => {
  await expect(
    handOver(records, 'a-run', { TOKEN: 'x' }, () => Promise.reject(new RunExistsError('a-run'))),
  ).rejects.toThrow(RunExistsError);
  expect(await records.hostVariables('a-run')).toEqual({ TOKEN: 'x' });
});

it('writes nothing where there is nothing to hand over', async () => {
  await handOver(records, 'a-run', {}, () => Promise.resolve());
  expect(existsSync(join(stateDir, 'runs'))).toBe(false);
});
